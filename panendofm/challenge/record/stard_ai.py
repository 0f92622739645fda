"""STARD-AI (Sounderajah et al., Nature Medicine 31, 2025): its 40 items in 48 lines, filled from what is known.

The numbers are the checklist's, the topics are in our words. A line is filled from plan.yaml, from the results, the
gold standard or the shard set; nothing is invented, and what nobody filled stays missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from panendofm.challenge.merge import GoldDocument
from panendofm.challenge.record.document import ChecklistItem, Independence, RecordedResult
from panendofm.challenge.score.results import BoxScores, LabelScores, PointScores, Results
from panendofm.challenge.score.subgroups import CLASS, SHARE, SIZE
from panendofm.challenge.shown import shown


@dataclass(frozen=True)
class Known:
    """All that a line may be filled from."""

    plan: dict[str, str | None]
    independence: Independence
    data_check: dict[str, int] | None
    gold_standard: GoldDocument | None
    results: list[RecordedResult]
    software: dict[str, str]


Filled = Callable[[Known], str | None]


def stard_ai(known: Known) -> list[ChecklistItem]:
    return [ChecklistItem(number, topic, fill(known)) for number, topic, fill in _ITEMS]


def _joined(*parts: str | None) -> str | None:
    return "; ".join(part for part in parts if part) or None


def _plan(*names: str) -> Filled:
    return lambda known: _joined(*(known.plan[name] for name in names))


def _also(first: Filled, second: Filled) -> Filled:
    return lambda known: _joined(first(known), second(known))


def _each(of_result: Callable[[Results], str | None]) -> Filled:
    """The same of every submission, named where there are several."""

    def fill(known: Known) -> str | None:
        found = [(r.results.submission, of_result(r.results)) for r in known.results]
        if len(found) == 1:
            return found[0][1]
        return _joined(*(f"{own.team}, run {own.run}: {text}" for own, text in found if text))

    return fill


def _annotation(known: Known) -> str | None:
    gold = known.gold_standard
    if gold is None:
        return None
    own = gold.agreement
    kappa = "" if own.kappa is None else f", kappa {own.kappa:.4f}"
    overlap = "" if own.mean_iou_of_boxes is None else f", mean IoU of their boxes {own.mean_iou_of_boxes:.4f}"
    return f"{own.annotators} annotators on their own, {gold.gold} objects confirmed by review{kappa}{overlap}"


def _development(known: Known) -> str | None:
    frames = known.independence.training_frames
    return None if frames is None else f"pretrained on {frames:,} frames"


def _external(known: Known) -> str | None:
    found = known.independence.certificate
    if found is None:
        return None
    return (
        f"kept out of training: {', '.join(guarded.name for guarded in found.guarded_sets) or 'nothing'}; "
        f"{found.frames_checked:,} frames checked, {found.frames_dropped:,} dropped as copies"
    )


def _software(known: Known) -> str:
    return ", ".join(f"{name} {number}" for name, number in known.software.items())


def _data_check(known: Known) -> str | None:
    found = known.data_check
    return None if found is None else f"{found['files']} files checked, {found['errors']} errors"


def _thresholds(results: Results) -> str | None:
    scores = results.scores
    if isinstance(scores, BoxScores | PointScores):
        return f"counts at confidence {scores.confidence_threshold:g}"
    return "the answer of highest confidence" if isinstance(scores, LabelScores) else None


def _statistics(results: Results) -> str:
    own, scores = results.submission, results.scores
    level, draws = f"{own.bootstrap.confidence:.0%}", own.bootstrap.replicates
    return f"profile {own.profile}; {level} intervals by {draws} bootstrap replicates over {scores.groups} groups"


def _missing_answers(results: Results) -> str:
    scores = results.scores
    if isinstance(scores, LabelScores) and scores.missing_counted_as_wrong:
        return f"{scores.missing_counted_as_wrong} images without an answer count as wrong"
    return "every image has an answer; a file that lacks one is refused"


def _kinds(results: Results) -> list[str]:
    return list(dict.fromkeys(s.kind for s in results.scores.subgroups if s.kind not in (CLASS, SHARE)))


def _variability(results: Results) -> str | None:
    kinds = _kinds(results)
    return f"subgroups by {', '.join(kinds)}, with intervals, not corrected for their number" if kinds else None


def _errors(results: Results) -> str | None:
    worst = [s.subgroup for s in results.scores.does_badly if s.subgroup.differs]
    if not _kinds(results):
        return None
    named = ", ".join(f"{s.title} ({shown(s.image_score_difference)})" for s in worst)
    return f"answered worse than all images: {named}" if named else "no subgroup is answered worse than all images"


def _sizes(*kinds: str) -> Filled:
    """How many images each subgroup has; all submissions answer one test set."""

    def of_result(results: Results) -> str | None:
        rows = [s for s in results.scores.subgroups if s.kind in kinds]
        return ", ".join(f"{s.title} {s.images} images" for s in rows) or None

    return lambda known: of_result(known.results[0].results) if known.results else None


def _crossed(results: Results) -> str | None:
    scores = results.scores
    if isinstance(scores, LabelScores):
        right = sum(row[i] for i, row in enumerate(scores.confusion))
        return f"confusion matrix of {scores.n} images in record.json, {right} on its diagonal"
    if isinstance(scores, BoxScores | PointScores):
        rows = [(name, row.frames_presence) for name, row in scores.per_class.items()]
        return ", ".join(f"{name}: frames TP {c.tp}, FP {c.fp}, FN {c.fn}, TN {c.tn}" for name, c in rows)
    return None


def _accuracy(results: Results) -> str:
    return ", ".join(f"{name} {shown(value)}" for name, value in results.metrics.items())


def _stored(results: Results) -> str:
    own = results.submission
    return f"answers kept as a file, SHA-256 {own.file_sha256}; truth {own.truth_sha256}"


_PARTS = ("center", "device", "hospital", "sex", "age", "ethnicity", "organ")
_ITEMS: tuple[tuple[str, str, Filled], ...] = (
    ("1", "Title: a study of the accuracy of an AI", _plan("title")),
    ("2", "Abstract", _plan("summary")),
    ("3", "Background, intended use, place in the workflow", _plan("intended_use")),
    ("4", "Objectives", _plan("objectives")),
    ("5", "Prospective or retrospective", _plan("study_design")),
    ("6", "Ethics approval", _plan("ethics_review", "consent")),
    ("7", "Eligibility of patients and of data", _also(_plan("test_set"), _data_check)),
    ("8", "On what basis patients were identified", _plan("recruitment")),
    ("9", "Setting, location and dates", _plan("recruitment", "period")),
    ("10", "Consecutive, random or convenience series", _plan("recruitment")),
    ("11", "Source of the data", _plan("test_set")),
    ("12", "Who annotated, and how", _also(_plan("reference_standard"), _annotation)),
    ("13", "Devices and software", _also(_plan("devices"), _software)),
    ("14", "Recording and preprocessing", _plan("preprocessing", "anonymization")),
    ("15a", "The index test", _plan("system", "developer")),
    ("15b", "How it was developed", _also(_plan("developer"), _development)),
    ("15c", "Its cut-offs", _also(_plan("thresholds"), _each(_thresholds))),
    ("15d", "Its users and their expertise", _plan("intended_use")),
    ("16a", "The reference standard", _also(_plan("reference_standard"), _annotation)),
    ("16b", "Why this reference standard", _plan("reference_rationale")),
    ("16c", "Its cut-offs", _plan("reference_rationale")),
    ("17a", "Blinding of the index test", _plan("blinding")),
    ("17b", "Blinding of the reference standard", _plan("blinding")),
    ("18", "Statistical methods", _each(_statistics)),
    ("19", "Indeterminate results", _plan("indeterminate")),
    ("20", "Missing data", _each(_missing_answers)),
    ("21", "Analyses of variability", _each(_variability)),
    ("22", "Sample size", _plan("sample_size")),
    ("23", "Error analysis, bias and fairness", _each(_errors)),
    ("24", "Flow of participants", _plan("flow")),
    ("25", "Characteristics of the sets", _sizes(*_PARTS)),
    ("26a", "Severity of disease", _sizes(SIZE, SHARE)),
    ("26b", "Alternative diagnoses", _sizes(CLASS)),
    ("27", "Time between the tests", _plan("interval")),
    ("28", "Whether the test set represents the intended patients", _plan("representativeness")),
    ("29", "How an external set differs from training", _external),
    ("30", "Cross-tabulation", _each(_crossed)),
    ("31", "Accuracy with intervals", _each(_accuracy)),
    ("32", "Adverse events", _plan("adverse_events")),
    ("33", "Limitations", _plan("limitations")),
    ("34", "Implications for practice", _plan("implications")),
    ("35", "Ethical considerations and fairness", _plan("fairness")),
    ("36", "Registration", _plan("registration")),
    ("37", "Protocol", _plan("protocol")),
    ("38", "Funding", _plan("funding")),
    ("39", "Commercial interests", _plan("commercial_interests")),
    ("40a", "Availability of data and code", _plan("availability")),
    ("40b", "Whether outputs are kept and can be audited", _each(_stored)),
)
