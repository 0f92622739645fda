"""How entities are called, which of them may both be true, and which examination an image comes from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import yaml

from panendofm.atlas import Label, load_taxonomy
from panendofm.runtime.errors import UserError
from panendofm.scoring.answers.replies import comparable
from panendofm.vqa.bench.operations.source import INSTRUMENTS

_NORMAL = "normal"


@dataclass(frozen=True)
class Vocabulary:
    names: dict[str, str]
    coexisting: dict[str, frozenset[str]]
    capsule_datasets: frozenset[str]
    _known: dict[tuple[str, str], bool] = field(default_factory=dict, compare=False)  # asked very often

    def name(self, entity: str) -> str:
        """The entity as questions and options write it."""
        return self.names.get(entity) or _spelled(entity)

    def may_both_be_true(self, a: str, b: str) -> bool:
        known = self._known.get((a, b))
        if known is None:
            known = self._known[(a, b)] = self._may_both_be_true(a, b)
        return known

    def _may_both_be_true(self, a: str, b: str) -> bool:
        """Whether b must not be a wrong option beside a: one of the same name, alias, level above or below, or line."""
        if comparable(self.name(a)) == comparable(self.name(b)):
            return True
        return (
            b in self.coexisting.get(a, ())
            or _canonical(a) == _canonical(b)
            or _is_grade_of(a, b)
            or _is_grade_of(b, a)
        )

    def scene(self, label: Label, datasets: Iterable[str]) -> str:
        if self.capsule_datasets & set(datasets):
            return "CE"
        if label.category in ("therapeutic-procedures", INSTRUMENTS):
            return "SE"
        return {"esophagus": "GS", "stomach": "GS", "colon": "CS", "small-intestine": "CE"}.get(label.region, "CS")


def _spelled(entity: str) -> str:
    text = entity.replace("-", " ")
    return text[:1].upper() + text[1:]


def _canonical(entity: str) -> str:
    return load_taxonomy().aliases.get(entity, entity)


def _is_grade_of(a: str, b: str) -> bool:
    finding = load_taxonomy().findings.get(b)
    return finding is not None and a in finding.grades


@cache
def load_vocabulary() -> Vocabulary:
    values = read_package_yaml("vocabulary", "names.yaml")
    coexisting: dict[str, set[str]] = {}
    for line in values["may_coexist"]:
        for entity in line:
            coexisting.setdefault(entity, set()).update(set(line) - {entity})
    taxonomy = load_taxonomy()
    known = {*taxonomy.findings, *taxonomy.aliases, *taxonomy.regions, _NORMAL}
    known |= {grade for finding in taxonomy.findings.values() for grade in finding.grades}
    for entity in [*values["names"], *coexisting]:
        if entity not in known and not entity.startswith("MAYO-"):
            raise UserError(f"names.yaml: '{entity}' is no entity of the taxonomy; correct the name.")
    return Vocabulary(
        values["names"],
        {name: frozenset(others) for name, others in coexisting.items()},
        frozenset(values["capsule_datasets"]),
    )


def read_package_yaml(folder: str, name: str) -> Any:
    return yaml.safe_load(resources.files("panendofm.vqa").joinpath(folder, name).read_text(encoding="utf-8"))
