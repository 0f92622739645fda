"""The Python API as docs/how-to/python-api.md shows it: its blocks run, one after another."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

import panendofm
from eval_knn import EvalConfig, Evaluator
from panendofm.backbone.networks import find_network
from panendofm.runtime.config import load_config

PAGE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "python-api.md"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release and labeled images."""
    folder = tmp_path_factory.mktemp("api")
    random = np.random.default_rng(0)
    for name, brightest in (("bright", 255), ("dark", 60)):
        (folder / "images" / name).mkdir(parents=True)
        for number in range(8):
            pixels = random.integers(0, brightest, (60, 60, 3), np.uint8)
            (folder / "images" / name / f"{number}.jpg").write_bytes(simplejpeg.encode_jpeg(pixels))
    for words in (
        ["backbone", "init", "vit_tiny_patch14", "out=start.safetensors"],
        ["export", "start.safetensors", "out=release", "formats=[hub]"],
    ):
        command = [sys.executable, "-m", "panendofm", *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder


def test_the_page_runs(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(place)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    exec("\n".join(blocks), {})
    printed = capsys.readouterr().out.splitlines()
    assert "vit_tiny_patch14 release" in printed and "(1, 192)" in printed and "16 (16, 192)" in printed
    assert "no-such-folder" in printed[-1]


def test_features_are_the_models_cls_tokens(place: Path) -> None:
    files = sorted((place / "images" / "dark").glob("*.jpg"))
    features = panendofm.embed(place / "release", files)
    assert features.values.shape == (8, 192) and features.values.dtype == np.float32
    assert not np.allclose(features.values[0], features.values[1])
    again = panendofm.embed(str(place / "release"), files[::-1], batch_size=3)
    np.testing.assert_allclose(again.values[::-1], features.values, atol=1e-5)
    mean = panendofm.embed(place / "release", files, pooling="mean")
    assert not np.allclose(mean.values, features.values)
    with pytest.raises(panendofm.UserError, match="name one block"):
        panendofm.embed(place / "release", files, block="auto")


def test_knn_is_that_of_the_command(place: Path) -> None:
    words = ["ks=[5, 20]", "split.leave_one_group_out=true", f"cache={place / 'cache'}"]
    ours = panendofm.evaluate_knn(place / "release", place / "images", *words)
    config = load_config(EvalConfig, None, [f"data.path={place / 'images'}", *words])
    theirs = Evaluator(config).score(find_network(str(place / "release"), config.cache_folder())).document
    assert ours.k == theirs.k and ours.values["top1_k20"] is not None


def test_the_version_has_one_owner() -> None:
    done = subprocess.run([sys.executable, "-m", "panendofm", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"panendofm {panendofm.__version__}"
    assert set(panendofm.__all__) <= set(dir(panendofm))
