"""The tables of the page, of table.md and of table.tex."""

from __future__ import annotations

from panendofm.reports import Table
from panendofm.reports.numbers import number, signed, with_interval
from panendofm.runtime.csv_files import csv_text
from panendofm.scoring.statistics.intervals import Interval
from panendofm.vqa.score.accuracy.metrics import AXES
from panendofm.vqa.score.accuracy.results import AccuracyResults, ContestantResult, HumanStudy, ShortcutResult

LEVEL = 0.05


def leaderboard_table(results: AccuracyResults) -> Table:
    """The main table, best first."""
    accuracy = f"accuracy ({results.bootstrap.confidence:.0%})"
    head = ["contestant", "n", accuracy, "above chance", "macro", "rotation", "circular", "blind", "unreadable"]
    rows = []
    for name, own in results.ranked:
        rows.append(
            [
                name,
                str(own.all.n),
                with_interval(own.all.accuracy, own.all.interval),
                number(own.all.chance_corrected),
                number(own.macro_over_tasks),
                number(own.rotation.rotation_accuracy if own.rotation else None),
                number(own.rotation.circular_accuracy if own.rotation else None),
                number(own.blind.accuracy if own.blind else None),
                str(own.unreadable),
                number(own.accounting.cost_per_1000),
                number(own.accounting.median_latency_s, 2),
            ]
        )
    return Table([*head, "cost/1000", "seconds"], rows)


def axis_table(results: AccuracyResults, axis: str) -> Table:
    """Accuracy on each part of the bench; the best is bold."""
    ranked = results.ranked
    first = ranked[0][1].axes[axis]
    names = sorted(first)
    rows = [
        ["questions", *(str(first[name].n) for name in names)],
        ["chance", *(number(first[name].chance) for name in names)],
    ]
    best = set()
    tops = [max(own.axes[axis][name].accuracy for _, own in ranked) for name in names]
    for contestant, own in ranked:
        for column, (name, top) in enumerate(zip(names, tops, strict=True), 1):
            if own.axes[axis][name].accuracy == top:
                best.add((len(rows), column))
        rows.append([contestant, *(number(own.axes[axis][name].accuracy) for name in names)])
    return Table(["contestant", *names], rows, best=frozenset(best))


def human_table(study: HumanStudy, confidence: float) -> Table:
    """Contestants and groups of readers, and each task beside."""
    tasks = sorted(study.ranked[0][1].axes["task"])
    rows = []
    for name, own in study.ranked:
        cells = [number(own.axes["task"][task].accuracy) for task in tasks]
        seconds = number(own.accounting.median_latency_s or None, 1)
        overall = [with_interval(own.all.accuracy, own.all.interval), number(own.macro_over_tasks)]
        rows.append([name, own.kind, str(own.all.n), *overall, *cells, seconds])
    for name, group in study.groups.items():
        cells = [number(group.axes["task"][task].accuracy) for task in tasks]
        kind = f"mean of {len(group.readers)}" if len(group.readers) > 1 else "one reader"
        overall = [with_interval(group.all.accuracy, group.all.interval), number(group.macro_over_tasks)]
        rows.append([name, kind, str(group.all.n), *overall, *cells, number(group.median_seconds or None, 1)])
    first = study.ranked[0][1]
    rows.append(["chance", "", "", number(first.all.chance), ""])
    rows[-1] += [*(number(first.axes["task"][task].chance) for task in tasks), ""]
    return Table(["contestant", "kind", "n", f"accuracy ({confidence:.0%})", "macro", *tasks, "seconds"], rows)


def against_table(study: HumanStudy) -> Table:
    rows = []
    for own in study.against:
        limits = "–" if own.interval is None else f"{signed(own.interval.low)} to {signed(own.interval.high)}"
        mark = " *" if own.p_holm < LEVEL else ""
        rows.append([f"{own.model} − {own.group}", signed(own.difference) + mark, limits, _p(own.p), _p(own.p_holm)])
    return Table(["difference", "accuracy", "interval", "p", "p (Holm)"], rows)


def reading_table(results: AccuracyResults) -> Table:
    """Other ways to read: letters that a model extracted, options by their likelihood. Strict stands beside."""
    rows = []
    for name, own in results.ranked:
        if own.extraction is not None:
            found = own.extraction
            rows.append(
                [
                    *(name, f"read by {found.by}", str(len(found.changed)), str(found.now_right)),
                    *(number(found.strict), with_interval(found.extracted, found.interval)),
                ]
            )
        if own.likelihood is not None:
            weighed = own.likelihood
            rows.append(
                [
                    *(name, f"likelihood of {weighed.mode} over all orders", "–", "–"),
                    *(number(weighed.first_order), with_interval(weighed.over_rotations, weighed.interval)),
                ]
            )
    return Table(["contestant", "reading", "replies changed", "now right", "strict, or first order", "so read"], rows)


def status_table(results: AccuracyResults) -> Table:
    ranked = results.ranked
    names = [status for status in ranked[0][1].statuses if any(own.statuses[status] for _, own in ranked)]
    rows = [[contestant, *(str(own.statuses[status]) for status in names)] for contestant, own in ranked]
    return Table(["contestant", *names], rows)


def pair_table(results: AccuracyResults) -> Table:
    rows = [
        [
            f"{pair.a} − {pair.b}",
            f"{pair.difference:+.3f}",
            _limits(pair.interval),
            pair.test,
            _p(pair.p),
            _p(pair.p_holm),
        ]
        for pair in results.pairs
    ]
    return Table(["pair", "difference", f"{results.bootstrap.confidence:.0%}", "test", "p", "p (Holm)"], rows)


def _p(value: float) -> str:
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"


def _limits(interval: Interval | None) -> str:
    return "–" if interval is None else f"{interval.low:.3f} to {interval.high:.3f}"


def perturbed_table(results: AccuracyResults) -> Table:
    rows = []
    for contestant, own in results.ranked:
        for kind, found in own.perturbed.items():
            metrics = found.robustness
            values = [metrics.clean_accuracy, metrics.perturbed_accuracy, metrics.retention, metrics.flip_rate]
            rows.append([contestant, kind, str(found.n), *(number(value) for value in values)])
    head = ["contestant", "how", "n", "clean", "perturbed", "kept above chance", "answers changed"]
    return Table(head, rows)


def shortcut_table(shortcuts: list[ShortcutResult]) -> Table:
    rows = [
        [
            row.shortcut,
            row.task,
            str(row.accuracy.n),
            number(row.accuracy.accuracy),
            number(row.accuracy.chance),
            "flagged" if row.flagged else "",
        ]
        for row in shortcuts
    ]
    return Table(["shortcut", "task", "n", "accuracy", "chance", ""], rows)


def contamination_table(results: AccuracyResults) -> Table:
    found = results.contamination.accuracy if results.contamination is not None else {}
    rows = []
    for contestant, own in found.items():
        shares = [own[part].accuracy if part in own else None for part in ("seen", "not_seen")]
        rows.append([contestant, *(number(share) for share in shares)])
    return Table(["contestant", "accuracy on seen", "on the others"], rows)


def summary_csv(results: AccuracyResults) -> str:
    """One line for each contestant and part of the bench."""
    head = ["part", "contestant", "kind", "axis", "value", "n", "accuracy", "low", "high", "chance", "chance_corrected"]
    rows = _summary_rows("full", results.contestants)
    if results.human is not None:
        rows += _summary_rows("human", results.human.contestants)
        for name, group in results.human.groups.items():
            means = [("all", "all", group.all)]
            means += [(axis, value, found) for axis in AXES for value, found in group.axes[axis].items()]
            for axis, value, mean in means:
                limits = mean.interval or ("", "")
                rows.append(["human", name, "group of readers", axis, value, mean.n, mean.accuracy, *limits, "", ""])
    return csv_text(head, rows)


def _summary_rows(part: str, contestants: dict[str, ContestantResult]) -> list[list[object]]:
    rows: list[list[object]] = []
    for contestant, own in contestants.items():
        parts = [("all", "all", own.all)]
        parts += [(axis, value, found) for axis in AXES for value, found in own.axes[axis].items()]
        for axis, value, found in parts:
            low, high = found.interval or ("", "")
            shares = [found.accuracy, low, high, found.chance, found.chance_corrected]
            rows.append([part, contestant, own.kind, axis, value, found.n, *shares])
    return rows
