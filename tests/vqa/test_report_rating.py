"""Reports of examinations: rated blindly in a real browser, then ranked with intervals, tests and agreement."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import numpy as np
import pytest
from browser import browser, is_there
from page_server import PageServer

from panendofm.runtime.command_line import run_stage
from panendofm.vqa.__main__ import STAGE
from panendofm.vqa.people.rate import BlindRating
from panendofm.vqa.people.ratings import read_ratings
from panendofm.vqa.people.reports import REPORT_RUBRIC, read_reports, shown_reports

ENTER = "\ue007"
CRITERIA = ("clarity", "limitations", "usefulness", "suggestions", "findings")


def vqa(*words: object) -> int:
    with pytest.raises(SystemExit) as done:
        run_stage(STAGE, [str(word) for word in words])
    return int(done.value.code or 0)


@pytest.fixture
def teams(tmp_path: Path) -> list[Path]:
    """Two teams on three videos; one writes as `probe report` does, and names itself."""
    for number in range(3):
        folder = tmp_path / "augsburg" / f"video-{number}"
        folder.mkdir(parents=True)
        (folder / "report.txt").write_text(
            f"Video {number}, findings of Augsburg.\nNetwork augsburg-vit, weights 0123456789abcdef.\nNote: research.\n"
        )
        (tmp_path / "ciisr").mkdir(exist_ok=True)
        (tmp_path / "ciisr" / f"video-{number}.txt").write_text(f"Examination {number}: two polyps.\n")
    return [tmp_path / "augsburg", tmp_path / "ciisr"]


def test_reports_are_rated_blindly_in_a_browser(teams: list[Path], tmp_path: Path) -> None:
    if not is_there():
        pytest.skip("chromium and chromedriver are not installed")
    ratings = tmp_path / "ratings"
    server = PageServer("rate-reports", *map(str, teams), "rater=expert-1", f"ratings={ratings}")
    try:
        with browser(tmp_path / "driver.log") as page:
            page.open(server.address)
            page.wait("state !== null && document.querySelectorAll('fieldset').length === 5")
            for text in (page.source(), httpx.get(server.at("/state")).text):
                for word in ("ugsburg", "ciisr", "-vit", "0123456789abcdef"):
                    assert word not in text, word
            assert page.run("return document.getElementById('view').hidden")  # reports have no image
            assert "Reference" not in page.run("return document.getElementById('side').textContent")
            for done in range(2):
                for number, mark in enumerate("51234", 1):
                    page.press(mark)
                    page.wait(f"document.querySelectorAll('input:checked').length === {number}")
                page.press(ENTER)
                page.wait(f"state.done === {done + 1}")
    finally:
        server.kill()
    found = read_ratings(ratings, REPORT_RUBRIC)
    assert [list(rating.values.values()) for rating in found] == [[5, 1, 2, 3, 4]] * 2


def test_each_rater_has_an_order_of_their_own(teams: list[Path], tmp_path: Path) -> None:
    reports = shown_reports(read_reports(teams))
    orders = [list(BlindRating(reports, REPORT_RUBRIC, rater, tmp_path / rater).texts) for rater in ("a", "b", "a")]
    assert orders[0] == orders[2] != orders[1] and len(orders[0]) == 6


MARKS = {  # by team and rater: one row a video, one column a criterion
    ("augsburg", "e1"): [[5, 4, 4, 3, 2], [5, 5, 4, 3, 3], [4, 4, 4, 2, 2]],
    ("augsburg", "e2"): [[4, 4, 5, 3, 2], [5, 4, 4, 4, 3], [4, 3, 4, 2, 1]],
    ("ciisr", "e1"): [[2, 2, 3, 1, 1], [3, 2, 3, 2, 1], [2, 3, 2, 1, 1]],
    ("ciisr", "e2"): [[3, 2, 2, 1, 1], [3, 3, 3, 1, 2], [2, 2, 2, 2, 1]],
}


def write_ratings(folder: Path, teams: list[Path]) -> None:
    folder.mkdir()
    for rater in ("e1", "e2"):
        lines = []
        for report in read_reports(teams):
            marks = MARKS[report.team, rater][int(report.video[-1])]
            lines.append(json.dumps({"answer": report.key, "rater": rater, **dict(zip(CRITERIA, marks, strict=True))}))
        (folder / f"{rater}.jsonl").write_text("\n".join(lines) + "\n")


def test_teams_are_ranked_with_agreement(teams: list[Path], tmp_path: Path) -> None:
    write_ratings(tmp_path / "ratings", teams)
    words = (f"ratings={tmp_path / 'ratings'}", f"out={tmp_path / 'out'}", "bootstrap.replicates=300")
    assert vqa("rank-reports", *teams, *words) == 0
    document = json.loads((tmp_path / "out" / "reports_ranking.json").read_text())
    assert [(row["rank"], row["team"]) for row in document["teams"]] == [(1, "augsburg"), (2, "ciisr")]
    table = {team: np.mean([MARKS[team, r] for r in ("e1", "e2")], axis=0) for team in ("augsburg", "ciisr")}
    for row in document["teams"]:
        by_video = table[row["team"]]
        for c, name in enumerate(CRITERIA):
            assert row["means"][name]["value"] == pytest.approx(by_video[:, c].mean(), abs=1e-9)
            assert row["deviations"][name] == pytest.approx(by_video[:, c].std(ddof=1), abs=1e-9)
        overall = row["means"]["overall"]
        assert overall["value"] == pytest.approx(by_video.mean(), abs=1e-9)
        assert overall["low"] <= overall["value"] <= overall["high"]
    (pair,) = document["pairs"]
    assert pair["difference"]["value"] == pytest.approx(table["augsburg"].mean() - table["ciisr"].mean(), abs=1e-9)
    assert pair["p_value"] == pytest.approx(2 / 2**3)  # three videos, all with the same sign
    # ICC(2,1) of clarity over six reports, from the mean squares by hand.
    x = np.array([[MARKS[t, r][v][0] for r in ("e1", "e2")] for t in ("augsburg", "ciisr") for v in range(3)], float)
    n, k = x.shape
    msr = k * x.mean(1).var(ddof=1)
    msc = n * x.mean(0).var(ddof=1)
    rest = x - x.mean(1, keepdims=True) - x.mean(0) + x.mean()
    mse = (rest**2).sum() / ((n - 1) * (k - 1))
    icc = (msr - mse) / (msr + (k - 1) * mse + k * (msc - mse) / n)
    assert document["agreement"]["clarity"]["icc_2_1"] == pytest.approx(icc, abs=1e-9)
    assert document["agreement"]["overall"]["reports"] == 6 and document["raters"] == ["e1", "e2"]


def test_what_cannot_be_ranked_is_refused(
    teams: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_ratings(tmp_path / "ratings", teams)
    words = (f"ratings={tmp_path / 'ratings'}", f"out={tmp_path / 'out'}")
    assert vqa("rank-reports", teams[0], *words) == 2
    assert "not among these" in capsys.readouterr().err
    for path in (tmp_path / "ratings").iterdir():
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    assert vqa("rank-reports", *teams, *words) == 2
    assert "nobody rated the report of ciisr on video-2" in capsys.readouterr().err
    (teams[1] / "video-2.txt").unlink()
    assert vqa("rank-reports", *teams, *words) == 2
    assert "different videos: video-2" in capsys.readouterr().err
