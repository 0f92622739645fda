"""Settings of the small bench that the tests use."""

from __future__ import annotations

from pathlib import Path

from runtime.config import load_config
from vqa.bench.config import BuildConfig

CAP = 8


def build_settings(atlas: Path, corpus: Path, out: Path, *more: str) -> BuildConfig:
    words = [f"data={atlas}", f"regions={corpus / 'regions.jsonl'}", f"out={out}", f"cap={CAP}", *more]
    return load_config(BuildConfig, None, words)
