"""What a run will do, decided before the first file is opened: the same for the same files and settings."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_pipeline.archives import is_archive, unpacked
from data_pipeline.config import CorpusConfig, PipelineConfig
from data_pipeline.registry import adapter_called, is_public_component
from data_pipeline.sources import Source, find_files, list_sources
from panendofm.atlas import Overlap, nearest_name, overlaps_between_corpora, overlaps_with_evaluation, same_name
from panendofm.runtime.console import say, table, warn
from panendofm.runtime.errors import UserError

# Part of every fingerprint: a change in what is computed must not meet old intermediate files.
WORK_FORMAT = 3


@dataclass(frozen=True)
class Unit:
    """What one task does: a video, a sequence, or some single images of one corpus."""

    number: int
    sources: tuple[Source, ...]
    root: str


@dataclass(frozen=True)
class Plan:
    """All work of a run."""

    units: tuple[Unit, ...]
    left_out: dict[str, int]  # reason → sources
    overlaps: tuple[Overlap, ...]  # with evaluation sets

    @property
    def sources(self) -> list[Source]:
        return [source for unit in self.units for source in unit.sources]


def plan(config: PipelineConfig) -> Plan:
    """List the corpora and cut them into units of work."""
    if not config.corpora:
        raise UserError("corpora is empty: name a config such as configs/corpora/panendo.yaml, or corpora.NAME.root=….")
    units: list[Unit] = []
    left_out: Counter[str] = Counter()
    for name in config.corpora:
        root = _folder_of(name, config)
        sources, skipped = _sources_of(name, root, config)
        left_out.update(skipped)
        units.extend(_cut(sources, str(root), len(units), config.ray.images_per_unit))
    adapters = {name: config.adapter_of(name) for name in config.corpora}
    components = {f"{adapters[s.corpus]}/{s.component}" for u in units for s in u.sources if s.component is not None}
    present = {name.casefold() for name in (*adapters.values(), *components)}
    overlaps = tuple(overlap for overlap in overlaps_with_evaluation() if overlap.part.casefold() in present)
    return Plan(tuple(units), dict(sorted(left_out.items())), overlaps)


def _folder_of(name: str, config: PipelineConfig) -> Path:
    root = config.root_of(name)
    if is_archive(root):
        return unpacked(root, config.private_dir / "unpacked")
    if not root.is_dir():
        raise UserError(
            f"corpora.{name}.root: the folder {root} does not exist; check it and data_root, or remove the corpus."
        )
    return root


def _sources_of(name: str, root: Path, config: PipelineConfig) -> tuple[list[Source], Counter[str]]:
    corpus = config.corpora[name]
    adapter = adapter_called(config.adapter_of(name), name)
    listed = list_sources(adapter, name, find_files(root), corpus.license)
    if not listed:
        raise UserError(
            f"corpora.{name}.root: {root} holds no file that the adapter '{config.adapter_of(name)}' knows; "
            "check the folder, or use the adapter 'folder'."
        )
    _check_components(name, {source.component for source in listed if source.component is not None}, config)
    skipped: Counter[str] = Counter()
    sources = []
    for source in listed:
        reason = _why_left_out(source, name, config)
        if reason is None:
            sources.append(source)
        else:
            skipped[reason] += 1
    return sources, skipped


def _check_components(name: str, components: set[str], config: PipelineConfig) -> None:
    """Nothing is read because of a misspelling: neither of a component to exclude, nor of a folder that overlaps."""
    corpus, key = config.corpora[name], f"corpora.{name}.exclude_components"
    for excluded in corpus.exclude_components:
        if excluded in components:
            continue
        if not components:
            raise UserError(f"{key}: the adapter '{config.adapter_of(name)}' knows no components; remove the key.")
        near = nearest_name(excluded, sorted(components))
        if near is not None:
            raise UserError(f"{key}: there is no component '{excluded}'; did you mean '{near}'?")
        warn(f"{key}: there is no component '{excluded}' here, so nothing is excluded by it.")
    parts = [overlap.part for overlap in (*overlaps_between_corpora(), *overlaps_with_evaluation())]
    known = sorted({part.partition("/")[2] for part in parts if part.startswith(f"{config.adapter_of(name)}/")})
    for component in sorted(components - set(corpus.exclude_components)):
        near = nearest_name(component, known)
        if near is not None and not same_name(near, component):
            warn(
                f"corpora.{name}: the component '{component}' is not known, but looks like '{near}', which overlaps "
                f"others; if it is the same, call its folder {near}."
            )


def _why_left_out(source: Source, name: str, config: PipelineConfig) -> str | None:
    if source.component in config.corpora[name].exclude_components:
        return f"{name}/{_shown(source.component)}: excluded"
    adapters = {other: config.adapter_of(other) for other in config.corpora}
    for overlap in overlaps_between_corpora() if config.known_overlaps == "skip" else ():
        if same_name(overlap.part, f"{adapters[name]}/{source.component}") and overlap.of in adapters.values():
            return f"{name}/{source.component}: known overlap with {overlap.of}"
    return None


def _cut(sources: list[Source], root: str, first_number: int, images_per_unit: int) -> list[Unit]:
    groups: list[tuple[Source, ...]] = [(source,) for source in sources if source.kind != "image"]
    images = [source for source in sources if source.kind == "image"]
    groups += [tuple(images[i : i + images_per_unit]) for i in range(0, len(images), images_per_unit)]
    return [Unit(first_number + i, group, root) for i, group in enumerate(groups)]


def settings_of(config: PipelineConfig) -> dict[str, Any]:
    """The settings that shape the output: no folders, nothing about where the work runs."""
    values = dataclasses.asdict(config)
    for key in ("out", "data_root", "identity", "ray"):
        del values[key]
    values["leakage"]["guard"] = [Path(folder).name for folder in config.leakage.guard]
    values["corpora"] = {
        name: {key: value for key, value in corpus.items() if key != "root"} | {"adapter": config.adapter_of(name)}
        for name, corpus in values["corpora"].items()
    }
    return values


def _shown(component: str | None) -> str:
    """As counts and settings may name it."""
    return component if component is not None and is_public_component(component) else "other"


def published_settings(config: PipelineConfig) -> dict[str, Any]:
    """`settings_of` without the names of folders that only this user knows."""
    values = settings_of(config)
    for corpus in values["corpora"].values():
        corpus["exclude_components"] = [_shown(component) for component in corpus["exclude_components"]]
    return values


def published_config(config: PipelineConfig) -> PipelineConfig:
    """The configuration as it lies beside the shards: of folders only their own names, nothing about the machine."""
    return dataclasses.replace(
        config,
        out=config.out_dir.name,
        data_root=".",
        corpora={name: _published_corpus(corpus) for name, corpus in config.corpora.items()},
        leakage=dataclasses.replace(config.leakage, guard=[Path(folder).name for folder in config.leakage.guard]),
        identity=dataclasses.replace(config.identity, private_dir=None),
        ray=dataclasses.replace(config.ray, address=None),
    )


def _published_corpus(corpus: CorpusConfig) -> CorpusConfig:
    excluded = [_shown(component) for component in corpus.exclude_components]
    return dataclasses.replace(
        corpus, root=corpus.root and (Path(corpus.root).name or "."), exclude_components=excluded
    )


def fingerprint(*content: Any) -> str:
    """A short checksum of anything that JSON can hold."""
    text = json.dumps([WORK_FORMAT, *content], sort_keys=True, default=vars)  # vars: of the plan's dataclasses
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:24]


def show(made: Plan, config: PipelineConfig) -> None:
    """Print the plan: what will be read, what is left out and why."""
    rows = []
    for name in config.corpora:
        sources = [source for source in made.sources if source.corpus == name]
        kinds = Counter(source.kind for source in sources)
        size = sum(file.size_bytes for source in sources for file in source.files)
        units = sum(unit.sources[0].corpus == name for unit in made.units)
        rows.append(
            [name, *(str(kinds[kind]) for kind in ("video", "sequence", "image")), f"{size / 1e6:.1f}", str(units)]
        )
    table("corpora:", ["corpus", "videos", "sequences", "images", "MB", "units"], rows)
    for reason, count in made.left_out.items():
        say(f"left out: {count} sources of {reason}")
    for overlap in made.overlaps:
        warn(f"{overlap.part} overlaps the evaluation set {overlap.of} ({overlap.what}).")
    if not config.leakage.guard:
        warn("leakage.guard is empty: no evaluation set is kept out of the shards.")
