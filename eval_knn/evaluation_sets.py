"""The sets that the checkpoints of a run are scored on: one selects, the others witness what else training changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch.distributed as dist

from eval_knn.config import EvaluationSets, NamedSetConfig
from eval_knn.evaluator import Evaluator, Result, evaluation_of, on_first_rank
from eval_knn.selection import fell_below
from panendofm.records.evaluation import FallRule, KnnDocument, read_evaluations, witnesses_of
from panendofm.records.run import RunFolder
from panendofm.runtime.errors import UserError


@dataclass(frozen=True)
class ScoredSets:
    """One checkpoint on all sets."""

    selecting: Result
    witnesses: list[KnnDocument]

    @property
    def documents(self) -> list[KnnDocument]:
        """The one that selects first."""
        return [self.selecting.document, *self.witnesses]


class SetsEvaluator:
    """Scores the checkpoints of one run on all its sets."""

    def __init__(self, run: RunFolder, sets: EvaluationSets, group: dist.ProcessGroup | None = None) -> None:
        self.sets = sets
        on_first_rank(partial(_refuse_other_selecting_set, run, sets), group)
        self._selecting = Evaluator(sets.selecting, group)
        self._witnesses = {name: Evaluator(config, group) for name, config in sets.witnesses.items()}

    @property
    def cache(self) -> Path:
        return self._selecting.cache

    def score(self, score: Callable[[Evaluator], Result]) -> ScoredSets:
        """`score`: how one evaluator scores the checkpoint."""
        witnesses = [
            replace(score(evaluator).document, evaluation_set=name, veto=_veto_of(self.sets.witnesses[name]))
            for name, evaluator in self._witnesses.items()
        ]
        selecting = score(self._selecting)
        document = replace(selecting.document, evaluation_set=self.sets.selecting_name)
        return ScoredSets(replace(selecting, document=document), witnesses)


def _veto_of(config: NamedSetConfig) -> FallRule | None:
    if config.veto_margin is None:
        return None
    rule = config.selection
    return FallRule(rule.metric, config.veto_margin, rule.confidence, rule.bootstrap_samples)


def _refuse_other_selecting_set(run: RunFolder, sets: EvaluationSets) -> None:
    """A run is selected by one set from its first evaluation to its last."""
    names = [document.evaluation_set for document in read_evaluations(run)]
    for name in names[:1]:
        if name and sets.selecting_name and name != sets.selecting_name:
            raise UserError(
                f"the checkpoints of {run.path} were selected by '{name}' so far, not by '{sets.selecting_name}'; "
                "restore select_by, or choose another run."
            )


def vetoed_checkpoints(run: RunFolder) -> dict[str, str]:
    """Checkpoints that fell below the start on a set that may veto, and why."""
    reasons: dict[str, str] = {}
    for name in witnesses_of(run):
        for checkpoint, why in _vetoes_of(read_evaluations(run, name)).items():
            reasons[checkpoint] = f"{reasons[checkpoint]}; {why}" if checkpoint in reasons else why
    return reasons


def _vetoes_of(documents: Sequence[KnnDocument]) -> dict[str, str]:
    """By the rule of the newest document: a margin that was changed when the run was resumed counts for all."""
    if not documents or documents[0].step != 0 or documents[-1].veto is None:
        return {}
    rule = documents[-1].veto
    start, *later = [evaluation_of(document) for document in documents]
    return {
        now.checkpoint: (
            f"{rule.metric} on {documents[0].evaluation_set} fell from {start.values[rule.metric]:.4f} to "
            f"{now.values[rule.metric]:.4f}, more than veto_margin={rule.margin:g}"
        )
        for now in later
        if fell_below(start, now, rule)
    }
