"""What released weights are made of: the corpora with their licenses, and the weights that training began with."""

from __future__ import annotations

from pathlib import Path
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
    known = loaded.origin
    return ReleaseSource(
        loaded.source,
        known.step,
        known.role,
        known.images_seen,
        known.shards_sha256,
        known.start_share,
        known.corpora or _corpora(run_of_source(loaded), loaded.certificate),
        one_line(start_note) if start_note is not None else known.start_note,
        one_line(data_note) if data_note is not None else known.data_note,
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
        data = (read_run_config(run) or {}).get("data")
        shards = data.get("shards") if isinstance(data, dict) else None
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


def certificate_summary(certificate: Certificate | None) -> str:
    """Its outcome in a sentence."""
    if certificate is None:
        return ""
    if not certificate.guarded_sets:
        return "No evaluation set was named to be kept out of the training data."
    sets = "; ".join(
        f"{one_line(guarded.name)} ({guarded.images:,} images, {guarded.frames_dropped:,} frames dropped)"
        for guarded in certificate.guarded_sets
    )
    return (
        f"{certificate.frames_checked:,} frames were compared with the images of evaluation sets, and "
        f"{certificate.frames_dropped:,} that show one of them were dropped before training: {sets}."
    )


def one_line(text: str) -> str:
    """Free text for publication."""
    return without_folders(printable(" ".join(text.split())))
