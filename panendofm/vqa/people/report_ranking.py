"""Teams ranked by the ratings of their reports, with intervals over videos, paired tests and the raters' agreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np

from panendofm.records.documents import write_document
from panendofm.reports.numbers import estimate as estimate_text
from panendofm.reports.numbers import number
from panendofm.runtime.console import say, table
from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, write_text
from panendofm.scoring.classification.rates import Floats, mean_over_defined
from panendofm.scoring.statistics.agreement import intraclass, krippendorff_ordinal
from panendofm.scoring.statistics.estimates import Estimate, defined, estimate, value_and_replicate_weights
from panendofm.scoring.statistics.paired_tests import holm, sign_flip
from panendofm.scoring.statistics.replicates import mean_replicates
from panendofm.vqa.people.config import RankReportsConfig
from panendofm.vqa.people.ratings import read_ratings
from panendofm.vqa.people.reports import REPORT_RUBRIC, Report, read_reports

OVERALL = "overall"


@dataclass(frozen=True)
class RankedTeam:
    """Means over videos of the raters' means; SD over videos."""

    team: str
    rank: int
    means: dict[str, Estimate]  # by criterion, and over all
    deviations: dict[str, float | None]


@dataclass(frozen=True)
class TeamPair:
    """The first team's overall mean less the second's, video by video."""

    first: str
    second: str
    difference: Estimate
    p_value: float
    corrected: float


@dataclass(frozen=True)
class RaterAgreement:
    """Over the reports that all raters rated. None: fewer than two raters or reports, or no spread."""

    reports: int
    icc_2_1: float | None
    krippendorff: float | None


@dataclass(frozen=True)
class ReportRanking:
    """reports_ranking.json."""

    raters: list[str]
    videos: int
    teams: list[RankedTeam]
    pairs: list[TeamPair]
    agreement: dict[str, RaterAgreement]
    format: Literal[1] = 1


def rank_reports(folders: Sequence[Path], config: RankReportsConfig) -> ReportRanking:
    reports = read_reports(folders)
    teams = list(dict.fromkeys(report.team for report in reports))
    videos = sorted({report.video for report in reports})
    raters, values = _table(reports, teams, videos, Path(config.ratings))
    weights = value_and_replicate_weights(np.arange(len(videos)), config.bootstrap)
    level = config.bootstrap.confidence
    criteria = [*REPORT_RUBRIC.names, OVERALL]
    of_criteria = mean_over_defined(values, axis=0)  # [teams, videos, criteria]: raters count alike
    by_video = np.concatenate([of_criteria, mean_over_defined(of_criteria)[..., None]], axis=2)
    ranked = []
    for t, team in enumerate(teams):
        draws = [mean_replicates(by_video[t, :, c], weights) for c in range(len(criteria))]
        means = {name: estimate(found, level, len(videos)) for name, found in zip(criteria, draws, strict=True)}
        spread = by_video[t].std(axis=0, ddof=1) if len(videos) > 1 else np.full(len(criteria), np.nan)
        better = by_video[:, :, -1].mean(axis=1) > by_video[t, :, -1].mean() + 1e-12
        rank = 1 + int(better.sum())
        ranked.append(RankedTeam(team, rank, means, {n: defined(s) for n, s in zip(criteria, spread, strict=True)}))
    document = ReportRanking(
        raters=raters,
        videos=len(videos),
        teams=sorted(ranked, key=lambda row: (row.rank, row.team)),
        pairs=_pairs(teams, by_video[:, :, -1], weights, level),
        agreement={name: _agreement(values, c) for c, name in enumerate(criteria)},
    )
    _write(document, Path(config.out))
    return document


def _table(reports: Sequence[Report], teams: list[str], videos: list[str], folder: Path) -> tuple[list[str], Floats]:
    """Ratings [raters, teams, videos, criteria]; NaN: not rated."""
    ratings = read_ratings(folder, REPORT_RUBRIC)
    place = {report.key: (teams.index(report.team), videos.index(report.video)) for report in reports}
    raters = sorted({rating.rater for rating in ratings})
    values = np.full((len(raters), len(teams), len(videos), len(REPORT_RUBRIC.names)), np.nan)
    for rating in ratings:
        if rating.answer not in place:
            raise UserError(
                f"{folder}: {rating.rater} rated a report that is not among these; name all teams' folders."
            )
        own = [rating.values[name] for name in REPORT_RUBRIC.names]
        values[(raters.index(rating.rater), *place[rating.answer])] = [np.nan if v is None else v for v in own]
    rated = ~np.isnan(values).all(axis=(0, 3))
    if not rated.all():
        t, v = np.argwhere(~rated)[0]
        raise UserError(f"{folder}: nobody rated the report of {teams[t]} on {videos[v]}; rate all before ranking.")
    return raters, values


def _pairs(teams: list[str], overall: Floats, weights: Floats, level: float) -> list[TeamPair]:
    """overall [teams, videos]; signs are flipped by video, and p-values corrected for the number of pairs."""
    found = list(combinations(range(len(teams)), 2))
    p_values = {f"{a} {b}": sign_flip(overall[a] - overall[b]) for a, b in found}
    corrected = holm(p_values)
    pairs = []
    for a, b in found:
        difference = estimate(mean_replicates(overall[a] - overall[b], weights), level, overall.shape[1])
        pairs.append(TeamPair(teams[a], teams[b], difference, p_values[f"{a} {b}"], corrected[f"{a} {b}"]))
    return pairs


def _agreement(values: Floats, criterion: int) -> RaterAgreement:
    """Of one criterion, or of the means of all."""
    own = values[..., criterion] if criterion < values.shape[3] else values.mean(axis=3)
    rows = own.reshape(len(own), -1).T  # [reports, raters]
    complete = rows[~np.isnan(rows).any(axis=1)]
    if complete.shape[1] < 2 or len(complete) < 2:
        return RaterAgreement(len(complete), None, None)
    alpha = krippendorff_ordinal(rows)
    return RaterAgreement(len(complete), defined(intraclass(complete).icc_2_1), defined(alpha))


def _write(document: ReportRanking, out: Path) -> None:
    criteria = list(document.agreement)
    rows = []
    for row in document.teams:
        cells = [
            f"{estimate_text(m.value, m.low, m.high, 2)} ± {number(row.deviations[name], 2)}"
            for name, m in row.means.items()
        ]
        rows.append([str(row.rank), row.team, *cells])
    table(f"reports, {document.videos} videos, {len(document.raters)} raters", ["rank", "team", *criteria], rows)
    for pair in document.pairs:
        d = pair.difference
        shown = estimate_text(d.value, d.low, d.high, 2)
        say(f"{pair.first} − {pair.second}: {shown}, p = {pair.p_value:.3f}, corrected {pair.corrected:.3f}")
    for name, found in document.agreement.items():
        say(f"agreement, {name}: ICC {number(found.icc_2_1, 3)}, Krippendorff's α {number(found.krippendorff, 3)}")
    make_directory(out)
    write_document(out / "reports_ranking.json", document)
    numbers = [
        [row.rank, row.team, name, m.value, m.low, m.high, row.deviations[name]]
        for row in document.teams
        for name, m in row.means.items()
    ]
    write_text(
        out / "reports_ranking.csv", csv_text(["rank", "team", "criterion", "mean", "low", "high", "sd"], numbers)
    )
    say(f"ranking: {out / 'reports_ranking.json'}, reports_ranking.csv")
