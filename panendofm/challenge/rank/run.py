"""The verb `rank`: scored submissions in order, with paired tests between them and the published rows beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from panendofm.challenge.config import RankConfig
from panendofm.challenge.profile import Profile, registered_profiles
from panendofm.challenge.published import PublishedTable
from panendofm.challenge.rank.page import p_text, rank_page, ranked_table
from panendofm.challenge.rank.paired import paired_tests
from panendofm.challenge.rank.ranking import ClinicalRow, PairedTest, RankedRow, Ranking, write_ranking
from panendofm.challenge.score.results import LabelScores, Results, read_results
from panendofm.reports.numbers import difference
from panendofm.runtime.console import say, table, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, write_text
from panendofm.runtime.names import hint
from panendofm.scoring.statistics import ranking
from panendofm.scoring.statistics.ranking import Entry

MOST_RUNS = 5
SPEED_TASKS = ("efficiency", "hardware")


@dataclass(frozen=True)
class Scored:
    """A folder of results as a ranking sees it."""

    folder: Path
    results: Results
    entry: Entry

    @property
    def name(self) -> str:
        task = self.results.submission.task
        return f"{self.entry.team} #{self.entry.run}" + (f" ({task})" if task != "classification" else "")


def rank(folders: Sequence[Path], config: RankConfig) -> Ranking:
    results = [read_results(folder) for folder in folders]
    profile = _profile(folders[0], results[0])
    scored = [_scored(folder, found, profile, config) for folder, found in zip(folders, results, strict=True)]
    _check(scored, config)
    published = _published(config.published, profile.ranking[0]) if config.published else None
    is_clinical = config.task == "clinical"
    document = Ranking(
        task=config.task or profile.kind,
        reading=config.reading if config.task in SPEED_TASKS else None,
        profile=profile.name,
        truth_sha256=results[0].submission.truth_sha256,
        metrics=list(profile.ranking),
        rows=[] if is_clinical else _ranked(scored, profile, config),
        paired_tests=[] if is_clinical else _paired_tests(scored),
        pareto_front=[entry.team for entry in ranking.pareto_front([s.entry for s in scored])],
        published=published.name if published else None,
        clinical_rows=_clinical(scored) if is_clinical else [],
    )
    _say(document)
    if config.out is not None:
        out = make_directory(Path(config.out))
        write_ranking(out, document)
        write_text(out / "index.html", rank_page(document, [s.entry for s in scored], published))
        say(f"ranking: {out / 'index.html'}, ranking.json, ranking.csv")
    return document


def _profile(folder: Path, results: Results) -> Profile:
    found = registered_profiles().get((results.scores.type, results.submission.profile))
    if found is None or not set(found.ranking) <= set(results.metrics):
        raise UserError(f"{folder}: its profile {results.submission.profile} is not that of today; score again.")
    return found


def _published(name: str, rank_by: str) -> PublishedTable:
    tables = {table.name: table for profile in registered_profiles().values() for table in profile.published}
    if name not in tables:
        raise UserError(f"published={name}: there is no such table; {hint(name, tables)}")
    if not all(rank_by in row.metrics for row in tables[name].rows):
        raise UserError(f"published={name}: that table has no {rank_by}, which ranks here; leave it out.")
    return tables[name]


def _scored(folder: Path, results: Results, profile: Profile, config: RankConfig) -> Scored:
    scores = results.scores
    own = results.submission
    fps = None
    if isinstance(scores, LabelScores):
        fps = scores.speed.fps if scores.speed else None
        if config.task == "hardware":
            if scores.measured is None:
                raise UserError(
                    f"{folder}: the hardware task ranks times that were measured here; run 'challenge time' and score "
                    "with timing=FILE.timing.json."
                )
            fps = scores.measured.fps
    elif config.task is not None:
        raise UserError(f"{folder}: these are results of {scores.type}; task={config.task} ranks classification.")
    if own.profile != profile.name or scores.type != profile.kind:
        raise UserError(
            f"{folder} was scored by {own.profile} ({scores.type}), the first by {profile.name} ({profile.kind}); "
            "score all by one profile."
        )
    metrics = {name: metric.value for name, metric in results.metrics.items()}
    entry = Entry(
        team=own.team,
        score=metrics[profile.ranking[0]] or 0.0,  # not defined: nothing was found
        recall=metrics.get("recall"),
        specificity=metrics.get("specificity"),
        fps=fps,
        training_images=own.training_images,
        run=own.run,
        organizer=own.organizer,
    )
    return Scored(folder, results, entry)


def _check(scored: Sequence[Scored], config: RankConfig) -> None:
    """One truth, at most five runs a team, no run twice."""
    first = scored[0]
    truth = first.results.submission.truth_sha256
    for other in scored[1:]:
        if other.results.submission.truth_sha256 != truth:
            raise UserError(
                f"{other.folder} and {first.folder} were scored against different truths; score both against one."
            )
    submissions = [s.results.submission for s in scored]
    for (team, task), count in Counter((s.team, s.task) for s in submissions).items():
        if count > MOST_RUNS:
            raise UserError(f"team {team} has {count} runs of {task}; at most {MOST_RUNS} take part: leave some out.")
    for (team, task, run), count in Counter((s.team, s.task, s.run) for s in submissions).items():
        if count > 1 and config.task != "clinical":
            raise UserError(f"run {run} of team {team} ({task}) is there {count} times; name runs apart with run=….")


def _ranked(scored: Sequence[Scored], profile: Profile, config: RankConfig) -> list[RankedRow]:
    """The best run of each team in order; organizers and those below a threshold are shown without a rank."""
    best = ranking.best_runs([s.entry for s in scored])
    ordered = ranking.by_quality(best)
    outside: list[tuple[Entry, str]] = []
    if config.task in SPEED_TASKS:
        everyone = ordered
        timed = [entry for entry in best if entry.fps is not None]
        if config.reading == "A":
            ordered = ranking.by_speed_above_threshold(timed)
            limit = "sensitivity or specificity below 0.85"
        else:
            ordered = ranking.by_quality_in_real_time(timed)
            limit = "below 45 images a second"
        outside = [(e, "no times" if e.fps is None else limit) for e in everyone if e not in ordered]
    by_run = {(s.entry.team, s.entry.run): s for s in scored}
    rows = []
    place = 0
    for entry, note in [*((entry, "organizers' own" if entry.organizer else "") for entry in ordered), *outside]:
        place += not note
        metrics = by_run[entry.team, entry.run].results.metrics
        rows.append(
            RankedRow(
                rank=None if note else place,
                team=entry.team,
                run=entry.run,
                metrics={name: metrics[name] for name in profile.ranking},
                fps=entry.fps,
                note=note,
            )
        )
    return rows


def _clinical(scored: Sequence[Scored]) -> list[ClinicalRow]:
    """The Medico report's last table: ranks of MCC, of its change in the second task, and of speed, and their mean."""
    first = ranking.best_runs([s.entry for s in scored if s.results.submission.task == "classification"])
    timed = ranking.best_runs([s.entry for s in scored if s.results.submission.task in SPEED_TASKS])
    second = {entry.team: entry for entry in timed}
    if not first:
        raise UserError(
            "the clinical table needs results of the task 'classification'; name it with task=… when scoring."
        )
    missing = [entry.team for entry in first if entry.team not in second or second[entry.team].fps is None]
    if missing:
        raise UserError(
            f"team {missing[0]} has no results of the task 'efficiency' with times; the clinical table needs both."
        )
    by_mcc = ranking.dense_ranks({e.team: float(ranking.four_digits(e.score)) for e in first}, highest_first=True)
    ranks = {
        entry.team: ranking.Applicability(
            by_mcc[entry.team],
            ranking.robustness_rank(entry.score, second[entry.team].score),
            ranking.speed_rank(second[entry.team].fps or 0.0),
        )
        for entry in first
    }
    places = ranking.clinical_ranks(ranks)
    rows = [
        ClinicalRow(
            rank=places[entry.team],
            team=entry.team,
            mcc=entry.score,
            mcc_second_task=second[entry.team].score,
            fps=second[entry.team].fps or 0.0,
            mcc_rank=ranks[entry.team].mcc_rank,
            robustness_rank=ranks[entry.team].robustness_rank,
            speed_rank=ranks[entry.team].speed_rank,
            mean_of_ranks=ranks[entry.team].mean_of_ranks,
        )
        for entry in first
    ]
    return sorted(rows, key=lambda row: (row.rank, row.team))


def _paired_tests(scored: Sequence[Scored]) -> list[PairedTest]:
    """Of labels: boxes and masks leave no answers that could be drawn again."""
    systems = [
        (s.name, s.folder, s.results.scores.house.mcc_multiclass)
        for s in scored
        if isinstance(s.results.scores, LabelScores)
    ]
    return paired_tests(systems, scored[0].results.submission.bootstrap)


def _say(document: Ranking) -> None:
    if document.clinical_rows:
        columns = ["rank", "team", "MCC rank", "robustness", "speed", "mean"]
        lines = [
            [str(r.rank), r.team, str(r.mcc_rank), str(r.robustness_rank), str(r.speed_rank), f"{r.mean_of_ranks:.2f}"]
            for r in document.clinical_rows
        ]
    else:
        columns, lines = ranked_table(document)
    table(f"ranking by {document.title}, profile {document.profile}", columns, lines)
    for test in document.paired_tests:
        say(
            f"{test.a} − {test.b}: MCC {difference(test.difference, test.low, test.high, 4)}, "
            f"p = {p_text(test.p)}, corrected {p_text(test.p_corrected)}"
        )
    if document.task in SPEED_TASKS and not any(row.rank for row in document.rows):
        warn("nobody reaches the threshold; nobody is ranked.")
