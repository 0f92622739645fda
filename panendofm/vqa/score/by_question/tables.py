"""The leaderboard's tables; a line break stands before what is small print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from panendofm.reports import Table
from panendofm.reports.numbers import MISSING, number, signed, with_interval
from panendofm.scoring.answers.box_replies import CONVENTIONS
from panendofm.vqa.benchmark import Benchmark
from panendofm.vqa.reply_kinds import BOX
from panendofm.vqa.score.by_question.readers import marks_of
from panendofm.vqa.score.by_question.results import Agreement, BoxMetrics, Difference, Pair, Part, Row

_CONVENTIONS = {"permille_yx": "permille, y first"}


def _cell(row: Row, metric: str, groups: Sequence[str], between: str = "\n") -> str:
    if metric in row.plain:
        return number(row.plain[metric].value)
    if metric not in row.metrics:
        return MISSING
    own = row.metrics[metric]
    shown, _, limits = with_interval(own.value, own.interval).partition(" ")
    return f"{shown}{_marks(row, metric, groups)}{between}{limits}".rstrip()


def _marks(row: Row, metric: str, groups: Sequence[str]) -> str:
    return marks_of({group: own.get(metric) for group, own in row.against.items()}, groups)


def name_of(row: Row) -> str:
    if not row.readers:
        return row.name
    return f"{row.name} ({row.readers} reader{'' if row.readers == 1 else 's'})"


def _shown(value: float | None, digits: int = 3) -> str:
    """What is nothing is not shown either: no time was taken, nothing was paid."""
    return number(value or None, digits)


def _answered(row: Row) -> str:
    return number(float(np.mean(list(row.answer_rate.values())))) if row.answer_rate else MISSING


def _gap(difference: float, interval: Pair | None, mark: str = "", p: float | None = None) -> str:
    limits = "" if interval is None else f"\n({signed(interval[0])} to {signed(interval[1])})"
    return f"{signed(difference)}{mark}{limits}" + ("" if p is None else f"\np {p:.3f}")


@dataclass(frozen=True)
class Tables:
    """The tables of one benchmark: its metrics are the columns."""

    benchmark: Benchmark
    rank_by: str

    @property
    def titles(self) -> dict[str, str]:
        """Of all metrics, by name, in the order of columns."""
        titles: dict[str, str] = {}
        for question in self.benchmark.questions:
            titles |= {metric.name: metric.title for metric in question.metrics}
            titles |= {plain.name: plain.title for plain in question.plain_metrics}
        return titles

    @property
    def own(self) -> dict[str, str]:
        """Titles of the first metric of each question type."""
        return {q.metrics[0].name: q.metrics[0].title for q in self.benchmark.questions if q.metrics}

    def ranked(self, part: Part) -> list[Row]:
        """Best first; groups of readers after the single contestants."""
        single = sorted(part.rows, key=lambda row: (-(row.value(self.rank_by) or 0.0), row.name))
        return [*single, *part.groups]

    def main(self, part: Part) -> Table:
        groups = [group.name for group in part.groups]
        ranked = self.ranked(part)
        shown = {m: title for m, title in self.titles.items() if any(row.value(m) is not None for row in ranked)}
        rows = [[name_of(row), row.kind, *(_cell(row, metric, groups) for metric in shown)] for row in ranked]
        return Table(["contestant", "kind", *shown.values()], rows)

    def short(self, part: Part) -> Table:
        """For a terminal: one column a question type, answers and cost."""
        groups = [group.name for group in part.groups]
        rows = []
        for row in self.ranked(part):
            cells = [_cell(row, metric, groups, " ") for metric in self.own]
            cost = row.accounting.cost_per_1000 if row.accounting else None
            rows.append([name_of(row), *cells, _answered(row), _shown(cost)])
        return Table(["contestant", *self.own.values(), "answered", "cost/1000"], rows)

    def replies(self, part: Part) -> Table:
        """What the replies were like, and what they cost in time and money."""
        boxes = [q.code for q in self.benchmark.questions if q.kind is BOX]
        texts = [q.code for q in self.benchmark.questions if q.kind.rated]
        head = ["contestant", "answered"]
        for code in boxes:
            head += [f"{code} valid boxes", "mIoU over valid", "specificity"]
        head += [f"{code} characters" for code in texts]
        rows = []
        for row in self.ranked(part):
            cells = [name_of(row), _answered(row)]
            for code in boxes:
                own = row.boxes.get(code, BoxMetrics())
                cells += [number(own.valid_rate), number(own.over_valid), number(own.specificity)]
            for code in texts:
                cells.append(_shown(row.texts[code].median_characters if code in row.texts else None, 0))
            rows.append([*cells, _shown(row.seconds, 2), *_cost_cells(row)])
        return Table([*head, "seconds/question", "tokens in", "out", "cost/1000", "cost in all"], rows)

    def differences(self, part: Part) -> Table:
        """Each model less each group of readers; a mark where Holm's p is below the level."""
        groups = [group.name for group in part.groups]
        models = [row for row in self.ranked(part) if row.against]
        shown = [m for m in self.titles if any(m in own for row in models for own in row.against.values())]
        rows = []
        for row in models:
            for group in groups:
                own = row.against.get(group, {})
                cells = [difference_cell(own.get(metric), _marks(row, metric, [group])) for metric in shown]
                rows.append([f"{row.name} − {group}", *cells])
        return Table(["difference", *(self.titles[metric] for metric in shown)], rows)

    def prompts(self, part: Part) -> Table:
        """What another wording of the prompt changes."""
        shown = [m for m in self.titles if any(m in pair.differences for pair in part.prompt_pairs)]
        rows = []
        for pair in part.prompt_pairs:
            cells = [difference_cell(pair.differences.get(metric), "") for metric in shown]
            rows.append([f"{pair.model}: {pair.first} − {pair.second}", *cells])
        return Table(["prompts", *(self.titles[metric] for metric in shown)], rows)

    def blind(self, part: Part) -> Table:
        asked = [row for row in part.rows if row.blind]
        shown = {m: title for m, title in self.own.items() if any(m in row.blind for row in asked)}
        rows = []
        for row in asked:
            cells = []
            for metric in shown:
                own = row.blind.get(metric)
                cells += [number(own.without_image), _gap(own.image_adds, own.interval)] if own else [MISSING, MISSING]
            rows.append([row.name, *cells])
        head = [column for title in shown.values() for column in (f"{title} blind", "image adds")]
        return Table(["contestant", *head], rows)

    def repeats(self, part: Part) -> Table:
        asked = [row for row in part.rows if row.repeats]
        shown = {m: title for m, title in self.own.items() if any(m in row.repeats for row in asked)}
        rows = []
        for row in asked:
            found = [row.repeats.get(metric) for metric in shown]
            runs = max(len(own.runs) for own in found if own)
            cells = [f"{np.mean(own.runs):.3f} ± {own.standard_deviation:.3f}" if own else MISSING for own in found]
            rows.append([row.name, str(runs), *cells])
        return Table(["contestant", "runs", *shown.values()], rows)

    def boxes(self, part: Part, code: str) -> Table:
        """Under each convention, and against what else is known of the truth."""
        known = [(row.name, row.boxes[code]) for row in part.rows if code in row.boxes]
        outlines = any(own.outlines for _, own in known)
        annotators = sorted({name for _, own in known for name in own.by_annotator})
        rows = []
        for name, own in known:
            values = [*(own.by_convention[convention] for convention in CONVENTIONS), own.best_match, own.union]
            values += [own.outline] if outlines else []
            values += [own.by_annotator.get(annotator) for annotator in annotators]
            hint = f"replies look like {own.looks_like}" if own.looks_like else ""
            rows.append([name, *(number(value) for value in values), number(own.boxes_per_reply, 2), hint])
        head = [_CONVENTIONS.get(convention, convention) for convention in CONVENTIONS]
        head += ["best of all boxes", "all boxes merged", *(["outline"] if outlines else [])]
        head += [f"against {annotator}" for annotator in annotators]
        return Table(["contestant", *head, "boxes/reply", ""], rows)

    def grounding(self, part: Part) -> Table:
        """The box beside the other steps, and where the chain breaks first."""
        known = [(row, row.grounding) for row in self.ranked(part) if row.grounding is not None]
        titles = {question.code: question.title for question in self.benchmark.questions}
        rows = []
        for row, own in known:
            cells = [number(own.shares[code]) for code in own.shares]
            cells += [difference_cell(gap, "") for gap in own.gaps.values()]
            cells += [number(share) for share in own.breaks.values()]
            rows.append([name_of(row), str(own.n), *cells, number(own.right_without_box)])
        head = ["contestant", "images"]
        if known:
            first = known[0][1]
            head += [f"{titles[code]} {'found' if code == first.box else 'right'}" for code in first.shares]
            head += [f"{titles[first.box]} − {titles[code]}" for code in first.gaps]
            head += [f"breaks at {titles[code]}" if code in titles else "unbroken" for code in first.breaks]
            head += [f"{titles[list(first.shares)[-1]]} right, not found"]
        return Table(head, rows)

    def chains(self, part: Part) -> Table:
        rows = []
        for row in part.rows:
            steps = [f"{number(step.share)} ({step.n})" for step in row.chain]
            said = row.consistency
            texts = (
                [said.names_the_chosen_site, said.names_the_chosen_lesion, said.names_a_lesion_that_is_not_there]
                if said
                else [None] * 3
            )
            rows.append([row.name, *steps, *(number(share) for share in texts)])
        titles = {question.code: question.title for question in self.benchmark.questions}
        head = []
        for step in part.rows[0].chain if part.rows else []:
            given = " and ".join(titles[code] for code in step.given)
            head.append(f"given {given}" if given else f"{titles[step.question]} right")
        return Table(["contestant", *head, "text names chosen site", "chosen lesion", "a lesion not there"], rows)


def _cost_cells(row: Row) -> list[str]:
    money = row.accounting
    if money is None or not money.requests:
        return [MISSING] * 4
    tokens = [money.prompt_tokens / money.requests, money.completion_tokens / money.requests]
    return [*(_shown(count, 0) for count in tokens), _shown(money.cost_per_1000), _shown(money.cost)]


def difference_cell(gap: Difference | None, mark: str) -> str:
    return MISSING if gap is None else _gap(gap.difference, gap.interval, mark, gap.p_holm)


def agreement_table(agreement: dict[str, dict[str, Agreement]]) -> Table:
    rows = []
    for dimension, found in agreement.items():
        for rater, own in found.items():
            values = [own.icc_2_1, own.quadratic_weighted_kappa, own.krippendorff_ordinal, own.spearman]
            values += [own.exact_agreement, own.within_one, own.bias]
            rows.append([dimension, rater, str(own.n), *(number(value) for value in values)])
    head = ["dimension", "who", "n", "ICC(2,1)", "κ", "α", "Spearman", "equal", "within one", "bias"]
    return Table(head, rows)
