"""Multiple-choice questions about every entity that an atlas knows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from panendofm.runtime.console import table
from panendofm.vqa.bench.bench_folder import Manifest
from panendofm.vqa.bench.config import BuildConfig
from panendofm.vqa.bench.images.prepare import Prepared
from panendofm.vqa.bench.images.sources import SourceImage, with_one_annotator
from panendofm.vqa.bench.items import Item
from panendofm.vqa.bench.questions.candidates import Candidate
from panendofm.vqa.bench.questions.for_people import mark_for_people
from panendofm.vqa.bench.questions.options import Pools
from panendofm.vqa.bench.questions.planner import Planner
from panendofm.vqa.bench.questions.templates import Templates, read_templates
from panendofm.vqa.bench.questions.types import ChoiceQuestion
from panendofm.vqa.bench.questions.vocabulary import load_vocabulary
from panendofm.vqa.benchmark import Benchmark


class EntityBuilder:
    """Builds a benchmark whose types are all `ChoiceQuestion`."""

    def __init__(self, benchmark: Benchmark, config: BuildConfig, left_out: Counter[str]) -> None:
        questions = [question for question in benchmark.questions if isinstance(question, ChoiceQuestion)]
        wanted = config.tasks
        self._questions = [q for q in questions if not wanted or q.code in wanted or q.task in wanted]
        self._prompts = benchmark.prompts_in("en")
        self._prompts_note = benchmark.prompts_note("en")
        self._templates = declared_templates(benchmark)
        if config.templates:
            self._templates = read_templates(config.templates)
        self._config = config
        self._left_out = left_out

    def candidates(self, images: Sequence[SourceImage]) -> list[Candidate]:
        marked = [with_one_annotator(image) for image in images]
        finders = {question.pool: question.find for question in self._questions}
        return [candidate for pool, find in finders.items() for candidate in find(pool, marked, load_vocabulary())]

    def usable(self, candidates: list[Candidate]) -> list[Candidate]:
        """A pool with one possible answer asks nothing; a region can still be looked for."""
        by_pool: dict[str, list[Candidate]] = defaultdict(list)
        for candidate in candidates:
            by_pool[candidate.pool].append(candidate)
        single = {question.pool for question in self._questions if question.may_ask_one_entity}
        kept = []
        for pool, own in by_pool.items():
            if pool in single or len({candidate.entity for candidate in own}) > 1:
                kept += own
            else:
                self._left_out[f"{pool}: only one answer occurs"] += len(own)
        return kept

    def cap(self, pool: str) -> int:
        return self._config.caps.get(pool, self._config.cap)

    def items(self, chosen: Sequence[Candidate], facts: dict[str, Prepared]) -> list[Item]:
        planner = Planner(self._questions, Pools(chosen), self._templates, self._config, self._left_out, self._prompts)
        planned = [question for c in chosen for question in planner.plan(c, facts[c.image.sha256])]
        return planner.deal(planned, facts)

    def for_people(self, items: list[Item]) -> list[Item]:
        config = self._config
        if not config.human_questions:
            return items
        return mark_for_people(items, config.human_questions, config.human_most_per_type, config.seed)

    def complete(self, manifest: Manifest) -> Manifest:
        return replace(manifest, published_prompts=self._prompts_note)

    def report(self, items: Sequence[Item]) -> None:
        rows = Counter((item.task, item.subtask, item.scene) for item in items)
        table("questions", ["task", "type", "scene", "n"], [[*key, str(n)] for key, n in sorted(rows.items())])


def declared_templates(benchmark: Benchmark) -> Templates:
    return Templates({question.code: question.wordings for question in benchmark.questions}, benchmark.name)
