"""Every block of a tutorial that is marked to be run, typed in the order of the page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from runnable import DOCS, blocks_of, run_block

TINY_LLAVA = Path(__file__).resolve().parents[1] / "vqa" / "tiny_llava.py"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def run_page(page: str, folder: Path, variables: dict[str, str] | None = None) -> list[str]:
    return [run_block(block, folder, variables) for block in blocks_of(page)]


def test_judge_a_network(tmp_path: Path) -> None:
    said = run_page("tutorials/judge-a-network.md", tmp_path)
    assert "efficientnet-lite0" in said[-1] and said[-1].count("|") > 10
    assert (tmp_path / "probe" / "index.html").is_file()


def test_adapt_to_your_hospital(tmp_path: Path) -> None:
    said = run_page("tutorials/adapt-to-your-hospital.md", tmp_path)
    verdict = [ending for ending in ("better than the start", "no difference", "worse") if ending in said[1]]
    assert verdict, said[1][-500:]
    assert json.loads(said[-1])


def test_videos_to_release(tmp_path: Path) -> None:
    said = run_page("tutorials/videos-to-release.md", tmp_path)
    assert "release" in said[-1] and "pixels" in said[-1]
    assert (tmp_path / "release" / "README.md").is_file()


def test_multimodal_model(tmp_path: Path) -> None:
    """With a very small model of transformers' own making."""
    offline = {"HF_HUB_OFFLINE": "1"}
    subprocess.run(
        [sys.executable, str(TINY_LLAVA), "make", "tiny"], cwd=tmp_path, env=os.environ | offline, check=True
    )
    said = run_page("tutorials/multimodal-model.md", tmp_path, {"MODEL": "tiny", **offline})
    assert "results/index.html" in said[-1]


def test_every_tutorial_has_something_to_run() -> None:
    for page in sorted((DOCS / "tutorials").glob("*.md")):
        if page.stem != "index":
            assert len(blocks_of(f"tutorials/{page.name}")) >= 3, page
