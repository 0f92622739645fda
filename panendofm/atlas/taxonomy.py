"""The four levels of labels: region → category → finding → grade. The content is data, in taxonomy.yaml."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_text
from panendofm.runtime.yaml_files import parse_yaml

# A grade between two steps: the finding counts, the grade doesn't.
AMBIGUOUS = "ambiguous"


@dataclass(frozen=True, order=True)
class Label:
    """One thing that an image shows. The grade is empty where there is none.

    `synonym` is the second name that the dataset uses for the finding, where the paper counts both as classes.
    """

    region: str
    category: str
    finding: str
    grade: str = ""
    synonym: str = ""

    def __str__(self) -> str:
        return "/".join([self.region, self.category, self.finding, self.grade, self.synonym]).rstrip("/")

    @property
    def written(self) -> str:
        """The finding as the dataset's mapping names it."""
        return self.synonym or self.finding

    @classmethod
    def parse(cls, text: str) -> Label:
        return cls(*text.split("/"))


@dataclass(frozen=True)
class Finding:
    """A level-3 entry of the taxonomy."""

    name: str
    region: str
    category: str
    grades: tuple[str, ...] = ()
    source: str = ""  # T2, TX, DS or MST, as taxonomy.yaml explains

    @property
    def named_in_paper(self) -> bool:
        return self.source in ("T2", "TX")


@dataclass(frozen=True)
class Taxonomy:
    """Canonical names of every level, and how other names resolve to them."""

    source: str
    regions: tuple[str, ...]
    categories: tuple[str, ...]
    findings: dict[str, Finding]
    aliases: dict[str, str]  # second name of a finding → its first name
    alias_grades: dict[str, str]  # second name of a grade, which is an alias too → that grade
    region_names: dict[str, str]  # any spelling in lower case → region
    category_names: dict[str, str]
    finding_names: dict[tuple[str, str], str]  # (region, any spelling in lower case) → finding
    alias_names: dict[tuple[str, str], str]  # the same of aliases → alias
    grade_names: dict[tuple[str, str], str]  # (finding, any spelling in lower case) → grade

    def resolve(self, levels: Iterable[Any], where: str) -> Label:
        """A label from 3 or 4 names, synonyms and aliases resolved; `where` names the place in an error."""
        names = [str(level) for level in levels]
        if len(names) not in (3, 4):
            raise UserError(f"{where}: a label has 3 or 4 levels, not {len(names)} ({', '.join(names)}).")
        region = _look_up(self.region_names, names[0], where, "region", self.regions)
        category = _look_up(self.category_names, names[1], where, "category", self.categories)
        finding = self._finding(region, names[2], where)
        if self.findings[finding].category != category:
            raise UserError(
                f"{where}: '{finding}' is one of the {self.findings[finding].category}, not of the {category}; "
                "correct the second level."
            )
        grade = self._grade(finding, names[3], where) if len(names) == 4 else ""
        alias = self.alias_names.get((region, names[2].lower()), "")
        if alias in self.alias_grades:
            return Label(region, category, finding, grade or self.alias_grades[alias])
        return Label(region, category, finding, grade, alias)

    def _finding(self, region: str, name: str, where: str) -> str:
        known = {n: f for (r, n), f in self.finding_names.items() if r == region}
        if name.lower() in known:
            return known[name.lower()]
        elsewhere = sorted({f"{f} ({r})" for (r, n), f in self.finding_names.items() if n == name.lower()})
        if elsewhere:
            raise UserError(f"{where}: '{name}' is not a finding of {region}; it is {' or '.join(elsewhere)}.")
        return _look_up(known, name, where, f"finding of {region}", sorted(set(known.values())))

    def _grade(self, finding: str, name: str, where: str) -> str:
        if name == AMBIGUOUS:
            return AMBIGUOUS
        known = {n: g for (f, n), g in self.grade_names.items() if f == finding}
        return _look_up(known, name, where, f"grade of {finding}", self.findings[finding].grades)

    def findings_of(self, region: str, category: str) -> list[str]:
        return [f.name for f in self.findings.values() if f.region == region and f.category == category]


def _look_up(known: dict[str, str], name: str, where: str, what: str, valid: Iterable[str]) -> str:
    if name.lower() in known:
        return known[name.lower()]
    match = difflib.get_close_matches(name.lower(), known, n=1)
    hint = f"did you mean '{known[match[0]]}'?" if match else f"there are: {', '.join(valid) or 'none'}."
    raise UserError(f"{where}: '{name}' is no {what}; {hint}")


@cache
def load_taxonomy(path: Path | None = None) -> Taxonomy:
    """The taxonomy of this package, or of a file of the same form."""
    if path is None:
        text = resources.files("panendofm.atlas").joinpath("taxonomy.yaml").read_text(encoding="utf-8")
    else:
        text = read_text(path)
    return parse_taxonomy(text, str(path or "taxonomy.yaml"))


@contextmanager
def expected_form(source: str, what: str) -> Iterator[None]:
    """A file whose parts are of another kind (a list for a mapping) is refused as a whole."""
    try:
        yield
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        raise UserError(f"{source}: it does not have the form of {what} ({error}); compare it with ours.") from error


def parse_taxonomy(text: str, source: str) -> Taxonomy:
    """Read and check a taxonomy: known sections, aliases that end, no name with two meanings."""
    with expected_form(source, "a taxonomy"):
        return _parse_taxonomy(text, source)


def _parse_taxonomy(text: str, source: str) -> Taxonomy:
    values = read_yaml(text, source, {"version", "regions", "categories", "findings"})
    regions, categories = values["regions"], values["categories"]
    entries: dict[str, tuple[Finding, dict[str, Any]]] = {}
    for region, by_category in values["findings"].items():
        _look_up({r: r for r in regions}, region, source, "region", regions)
        for category, findings in by_category.items():
            _look_up({c: c for c in categories}, category, source, "category", categories)
            for name, entry in findings.items():
                if name in entries:
                    raise UserError(f"{source}: the finding '{name}' is listed twice; remove one.")
                known = {"source", "alias_of", "alias_grade", "synonyms", "grades"}
                refuse_unknown(entry, known, f"{source}: {name}")
                grades = tuple(entry.get("grades", {}))
                entries[name] = (Finding(name, region, category, grades, entry.get("source", "")), entry)
    aliases = {name: _end_of_aliases(name, entries, source) for name, (_, e) in entries.items() if "alias_of" in e}
    alias_grades = {name: entry["alias_grade"] for name, (_, entry) in entries.items() if "alias_grade" in entry}
    for name, grade in alias_grades.items():
        if grade not in entries[aliases.get(name, name)][0].grades:
            raise UserError(f"{source}: '{name}' means the grade '{grade}', which its finding does not have; add it.")
    finding_names: dict[tuple[str, str], str] = {}
    alias_names: dict[tuple[str, str], str] = {}
    grade_names: dict[tuple[str, str], str] = {}
    for name, (finding, entry) in entries.items():
        for spelling in {name, *map(str, entry.get("synonyms", []))}:
            _add_name(finding_names, (finding.region, spelling.lower()), aliases.get(name, name), source)
            if name in aliases:
                alias_names[finding.region, spelling.lower()] = name
        for grade, synonyms in entry.get("grades", {}).items():
            for spelling in {grade, *map(str, synonyms)}:
                _add_name(grade_names, (name, spelling.lower()), grade, source)
    return Taxonomy(
        source,
        tuple(regions),
        tuple(categories),
        {name: finding for name, (finding, _) in entries.items() if name not in aliases},
        aliases,
        alias_grades,
        {str(s).lower(): name for name, entry in regions.items() for s in [name, *entry["synonyms"]]},
        {str(s).lower(): name for name, entry in categories.items() for s in [name, *entry["synonyms"]]},
        finding_names,
        alias_names,
        grade_names,
    )


def _end_of_aliases(name: str, entries: dict[str, tuple[Finding, dict[str, Any]]], source: str) -> str:
    """The finding that a chain of aliases ends at; it must be of the same region and category."""
    seen = [name]
    while "alias_of" in entries[seen[-1]][1]:
        following = str(entries[seen[-1]][1]["alias_of"])
        if following not in entries:
            raise UserError(f"{source}: '{seen[-1]}' is an alias of '{following}', which is not listed; correct it.")
        if following in seen:
            raise UserError(f"{source}: the aliases {' → '.join([*seen, following])} go in a circle; remove one.")
        seen.append(following)
    first, last = entries[name][0], entries[seen[-1]][0]
    if (first.region, first.category) != (last.region, last.category):
        raise UserError(f"{source}: '{name}' and '{last.name}', its alias, are in different places; correct one.")
    return seen[-1]


def _add_name(names: dict[tuple[str, str], str], key: tuple[str, str], meaning: str, source: str) -> None:
    if names.setdefault(key, meaning) != meaning:
        raise UserError(
            f"{source}: in '{key[0]}' the name '{key[1]}' stands for both {names[key]} and {meaning}; remove one."
        )


def read_yaml(text: str, source: str, keys: set[str]) -> dict[str, Any]:
    """A YAML mapping with only the given keys."""
    values = parse_yaml(text, source)
    if not isinstance(values, dict):
        raise UserError(f"{source}: the file must hold a mapping of keys to values.")
    refuse_unknown(values, keys, source)
    return values


def refuse_unknown(values: dict[str, Any], keys: set[str], source: str) -> None:
    for name in values:
        if name not in keys:
            match = difflib.get_close_matches(str(name), keys, n=1)
            hint = f"did you mean '{match[0]}'?" if match else f"there are: {', '.join(sorted(keys))}."
            raise UserError(f"{source}: unknown key '{name}'; {hint}")
