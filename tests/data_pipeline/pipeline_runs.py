"""How the pipeline's tests make runs and look at them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from data_pipeline import PipelineConfig
from panendofm.records.shards import PrivateFolder
from panendofm.runtime.config import load_config

SYNTHETIC_YAML = Path(__file__).resolve().parents[2] / "configs" / "corpora" / "synthetic.yaml"
KEY = bytes(range(32)).hex() + "\n"
# The text detector takes most of the time of a run on such short videos; tests that need it switch it on.
WITHOUT_TEXT = ["screen.text.inside=keep", "screen.text.reader=none"]


def config_for(corpus: Path, out: Path, *overrides: str, only: tuple[str, ...] = ()) -> PipelineConfig:
    """The synthetic corpus's own config, with its key given so that two runs can be compared byte by byte."""
    config = load_config(
        PipelineConfig,
        SYNTHETIC_YAML,
        [
            f"data_root={corpus}",
            f"leakage.guard=[{corpus}/kvasir-dataset-v2]",
            f"out={out}",
            "ray.workers=2",
            *WITHOUT_TEXT,
            *overrides,
        ],
    )
    if only:  # a small run: a few corpora, a small guarded set
        config.corpora = {name: config.corpora[name] for name in only}
        config.leakage.guard = [f"{corpus}/kvasir-dataset-v2/ulcerative-colitis"]
    config.private_dir.mkdir(parents=True, exist_ok=True)
    PrivateFolder(config.private_dir).key.write_text(KEY)
    return config


def checksums_of(out: Path) -> dict[str, str]:
    """Of all files of a finished set that must not depend on how it was made; croissant.json names the folder."""
    differing = ("config.yaml", "report.html", "croissant.json")
    names = [path for path in sorted(out.iterdir()) if path.name not in differing]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in names}


class FinishedRun:
    """A set of shards of the whole synthetic corpus."""

    def __init__(self, config: PipelineConfig) -> None:
        self.config, self.out = config, config.out_dir
        self.frames: list[dict[str, Any]] = pq.read_table(self.out / "manifest.parquet").to_pylist()
        self.sources: dict[str, dict[str, Any]] = {
            f"{row['corpus']}/{row['path']}": row
            for row in pq.read_table(config.private_dir / "sources.parquet").to_pylist()
        }


def in_published(folder: Path, words: Sequence[str]) -> list[str]:
    """Where a word stands in a folder's names or contents; tables are read, because Parquet compresses its text."""
    hits = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        content = path.name.encode() + b"\0" + path.read_bytes()
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            columns = [name for name in table.column_names if table.schema.field(name).type != pa.binary()]
            content += repr(table.select(columns).to_pylist()).encode()
        hits += [f"{path.name}: {word}" for word in words if word.encode() in content]
    return hits
