"""Reports of examinations, rated blindly on the rating page: Medico's five criteria, each from 1 to 5.

REPORTS/TEAM-A/video-1.txt …       or what `panendofm probe report` writes: TEAM-A/video-1/report.txt
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_text
from panendofm.vqa.people.config import RateReportsConfig
from panendofm.vqa.people.rate import ShownText, serve_rating
from panendofm.vqa.people.readers import check_code
from panendofm.vqa.people.rubric import Dimension, Rubric

# What the Medico task's gastroenterologists were asked of each report; the words for 1, 3 and 5 are ours.
REPORT_RUBRIC = Rubric(
    (
        Dimension(
            "clarity", "Clear and trustworthy", ("unclear, or not believable", "mostly clear", "clear, I trust it")
        ),
        Dimension("limitations", "Limitations", ("they make it useless", "they hinder", "none that matter")),
        Dimension("usefulness", "Useful in the clinic", ("of no use", "of some use", "I would use it")),
        Dimension(
            "suggestions", "Suggestions and additions", ("none, or misleading", "some help", "helpful throughout")
        ),
        Dimension("findings", "Further useful findings", ("none, or wrong", "some", "all that I would want")),
    )
)
# How `probe report` names the network at the end of a report.
_NETWORK = re.compile(r"^Network .*, weights [0-9a-f]+\.\n?", re.MULTILINE)
_LONGEST = 100_000


@dataclass(frozen=True)
class Report:
    """A team's text about one video. The key says neither."""

    key: str
    team: str
    video: str
    text: str


def read_reports(folders: Sequence[Path]) -> list[Report]:
    """One folder a team. Teams must report on the same videos, or a ranking would compare videos."""
    found: list[Report] = []
    videos: dict[str, set[str]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"cannot read {folder}: it is no folder; name one folder of reports for each team.")
        team = folder.resolve().name
        if team in videos:
            raise UserError(f"{folder}: there are two teams {team}; rename a folder.")
        own = {_video(folder, path): path for path in sorted(folder.rglob("*.txt"))}
        if not own:
            raise UserError(f"{folder}: there are no reports in it; a report is a file VIDEO.txt.")
        videos[team] = set(own)
        found += [_report(team, video, path) for video, path in own.items()]
    first = next(iter(videos))
    for team, own_videos in videos.items():
        odd = sorted(own_videos ^ videos[first])
        if odd:
            raise UserError(f"the teams {first} and {team} report on different videos: {odd[0]} is on one side only.")
    return [_blinded(report, list(videos)) for report in found]


def _video(folder: Path, path: Path) -> str:
    own = path.parent if path.stem == "report" and path.parent != folder else path.with_suffix("")
    return own.relative_to(folder).as_posix()


def _report(team: str, video: str, path: Path) -> Report:
    text = read_text(path).strip()
    if not text or len(text) > _LONGEST:
        raise UserError(f"{path}: a report has 1 to {_LONGEST:,} characters, this one {len(text):,}.")
    key = hashlib.sha256(f"{team}\n{video}".encode()).hexdigest()[:16]
    return Report(key, team, video, text)


def _blinded(report: Report, teams: Sequence[str]) -> Report:
    """Without the names of teams and networks."""
    text = _NETWORK.sub("", report.text)
    for team in teams:
        text = re.sub(rf"\b{re.escape(team)}\b", "(team)", text, flags=re.IGNORECASE)
    return Report(report.key, report.team, report.video, text.strip())


def shown_reports(reports: Sequence[Report]) -> list[ShownText]:
    return [ShownText(own.key, f"Report of the examination {own.video}", own.text) for own in reports]


def serve_report_rating(folders: Sequence[Path], config: RateReportsConfig) -> None:
    check_code(config.rater, "rater")
    serve_rating(shown_reports(read_reports(folders)), REPORT_RUBRIC, config)
