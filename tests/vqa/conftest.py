"""A bench of the synthetic corpus, made once for all tests of this folder."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, browser, is_there
from page_server import PageServer
from vqa_benches import build_settings

from panendofm.atlas.build import build_atlas, load_atlas, save_atlas
from panendofm.runtime.config import load_config
from panendofm.vqa.bench.bench_folder import Bench, read_bench
from panendofm.vqa.bench.build import build_bench
from panendofm.vqa.bench.config import BuildConfig


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not is_there():
        pytest.skip("chromium and chromedriver are not installed")
    with browser(tmp_path_factory.mktemp("browser") / "driver.log") as opened:
        yield opened


@pytest.fixture
def servers() -> Iterator[list[PageServer]]:
    """Those that are started, so that none outlives a test that fails."""
    started: list[PageServer] = []
    yield started
    for server in started:
        if server.process.poll() is None:
            server.kill()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of a test run share."""
    common = tmp_path_factory.getbasetemp()
    folder = (common.parent if "PYTEST_XDIST_WORKER" in os.environ else common) / "vqa"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def atlas_file(shared: Path, synthetic_corpus: Path) -> Path:
    path = shared / "atlas.parquet"
    with (shared / "atlas.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            save_atlas(build_atlas([str(synthetic_corpus / "kvasir-dataset-v2")], 48), path)
    return path


@pytest.fixture(scope="session")
def bench(shared: Path, atlas_file: Path, synthetic_corpus: Path) -> Bench:
    """A small bench with all tasks that the synthetic corpus can give. Read it, don't change it."""
    folder = shared / "bench"
    with (shared / "bench.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            build_bench(build_settings(atlas_file, synthetic_corpus, folder))
    return read_bench(folder)


@pytest.fixture(scope="session")
def lesion_bench(shared: Path, atlas_file: Path, synthetic_corpus: Path) -> Bench:
    """Five questions about one lesion; the synthetic classes stand in for lesions."""
    folder = shared / "lesions"
    with (shared / "lesions.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            references = shared / "references.jsonl"
            lines = [
                {"id": row.sha256, "q4": f"{row.own_labels[0].replace('-', ' ')} with a sharp margin.", "q5": "Biopsy."}
                for row in load_atlas(atlas_file).rows
            ]
            references.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            words = [f"data={atlas_file}", f"regions={synthetic_corpus / 'regions.jsonl'}", f"out={folder}"]
            settings = Path(__file__).with_name("gi_synthetic.yaml")
            build_bench(load_config(BuildConfig, settings, [*words, f"references={references}"]))
    return read_bench(folder)
