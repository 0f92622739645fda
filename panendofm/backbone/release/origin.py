"""What released weights are made of: the corpora with their licences, and the weights that training began with."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

from panendofm.backbone.release.start import run_of_source
from panendofm.backbone.weights.load import LoadedBackbone
from panendofm.records.release import ReleaseSource
from panendofm.records.run import RunFolder
from panendofm.records.shards import Certificate, CorpusFrames, ShardFolder
from panendofm.runtime.console import warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.names import printable, without_folders
from panendofm.runtime.yaml_files import read_yaml


def source_of(loaded: LoadedBackbone, start_note: str | None, data_note: str | None) -> ReleaseSource:
    """What may be told of where the weights come from. A release that is exported again says what it said before."""
    known = loaded.metadata
    return ReleaseSource(
        loaded.source,
        known.get("step"),
        known.get("role"),
        known.get("images_seen"),
        known.get("shards_sha256"),
        known.get("start_share"),
        known.get("corpora") or _corpora(run_of_source(loaded), loaded.certificate),
        _one_line(start_note) if start_note is not None else known.get("start_note"),
        _one_line(data_note) if data_note is not None else known.get("data_note"),
    )


def read_run_config(run: RunFolder | None) -> dict[str, Any] | None:
    if run is None or not run.config.is_file():
        return None
    try:
        content = read_yaml(run.config)
    except UserError as error:
        warn(f"{error} The model card will say that the training is not known.")
        return None
    return content if isinstance(content, dict) else None


def _corpora(run: RunFolder | None, certificate: Certificate | None) -> list[CorpusFrames] | None:
    """As the run keeps them; for runs of before they did, as its shards say, where they still are the same."""
    if run is None:
        return None
    try:
        info = run.read_info()
        if info is not None and info.corpora is not None:
            return info.corpora
        shards = _section(read_run_config(run), "data").get("shards")
        files = ShardFolder(Path(str(shards)))
        if not shards or not files.manifest.is_file():
            return None
        if files.read_manifest().leakage != certificate:
            warn(f"{files.path} was made again since {run.path}: the model card will not say which corpora were used.")
            return None
        return files.read_corpora()
    except UserError as error:
        warn(f"{error} The model card will say that the corpora are not known.")
        return None


def data_section(source: ReleaseSource, config: dict[str, Any] | None) -> str:
    """What the maker of the release says of them; which corpora, under which licences, and how much of each."""
    lines = [source.data_note] if source.data_note else []
    if source.corpora:
        frames, weights = sum(corpus.frames for corpus in source.corpora), _section(config, "data").get("weights")
        how = ", drawn by weights of their own" if isinstance(weights, str) else ""
        lines += [
            f"{frames:,} frames, without labels{how}:",
            _corpora_table(source.corpora, weights if isinstance(weights, dict) else {}),
            "The licences are those of the corpora, not of these weights. Some, such as CC BY, ask that the corpus and "
            "its makers are named wherever something made from it is passed on.",
        ]
    else:
        lines.append(
            "Not known: nothing was found beside the weights that says which corpora they saw, under which licences."
        )
    if source.shards_sha256 is not None:
        lines.append(f"Checksum of the training shards: `{source.shards_sha256}`.")
    return "\n\n".join(lines)


def _corpora_table(corpora: list[CorpusFrames], weights: dict[str, float]) -> str:
    head = ["corpus", "licence", "frames"]
    rows = [[_cell(c.name), _cell(c.licence or "not stated"), f"{c.frames:,}"] for c in corpora]
    if weights:  # a corpus that they do not name was not seen at all
        head.append("share of the images seen")
        total = sum(weights.values())
        for row, corpus in zip(rows, corpora, strict=True):
            row.append(f"{weights.get(corpus.name, 0) / total:.0%}")
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def start_section(source: ReleaseSource, config: dict[str, Any] | None) -> str:
    """The weights that training began with: their name, and what the maker of the release says of them."""
    init = _section(config, "init")
    lines = [source.start_note] if source.start_note else []
    if init.get("weights"):
        lines.append(f"Training began with `{PurePath(str(init['weights'])).name}`.")
    elif "weights" in init:
        lines.append("Training began with random weights.")
    if not source.start_note and ("weights" not in init or init["weights"]):
        lines.append(
            "Not known: where the weights that training began with come from, and under which licence; whoever made "
            "this release did not say."
        )
    if source.start_share:
        lines.append(
            f"The released weights are an average: {1 - source.start_share:.0%} as trained, {source.start_share:.0%} "
            "of those that training began with."
        )
    return "\n\n".join(lines)


def certificate_summary(certificate: Certificate) -> str:
    """Its outcome in a sentence."""
    if not certificate.guarded_sets:
        return "No evaluation set was named to be kept out of the training data."
    sets = "; ".join(
        f"{_one_line(guarded.name)} ({guarded.images:,} images, {guarded.frames_dropped:,} frames dropped)"
        for guarded in certificate.guarded_sets
    )
    return (
        f"{certificate.frames_checked:,} frames were compared with the images of evaluation sets, and "
        f"{certificate.frames_dropped:,} that show one of them were dropped before training: {sets}."
    )


def _section(config: dict[str, Any] | None, name: str) -> dict[str, Any]:
    section = config.get(name) if config else None
    return section if isinstance(section, dict) else {}


def _one_line(text: str) -> str:
    """Free text for publication."""
    return without_folders(printable(" ".join(text.split())))


def _cell(text: str) -> str:
    return _one_line(text).replace("|", "\\|")
