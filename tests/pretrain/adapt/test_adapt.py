"""`python -m pretrain adapt` from a folder of images to a verdict, as a user types it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

from panendofm.backbone import VisionTransformer, vit_config
from panendofm.records.documents import read_document
from panendofm.records.shards import ShardFolder
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from pretrain.adapt.config import AdaptConfig
from pretrain.adapt.run import adapt as run_adapt
from pretrain.adapt.verdict import Adaptation

SMALL = ("presentations=640", "trainable=last:1", "image_px=28", "device=cpu")


@pytest.fixture(scope="module")
def folders(synthetic_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Labeled and unlabeled images, a copy of a labeled one among the unlabeled, and small weights."""
    root = tmp_path_factory.mktemp("adapt")
    labeled = synthetic_corpus / "kvasir-dataset-v2"
    images = root / "images"
    images.mkdir()
    for number, path in enumerate(sorted((synthetic_corpus / "hyper-kvasir").rglob("*.jpg"))[:40]):
        shutil.copy(path, images / f"{number}.jpg")
    copied = next(labeled.rglob("*.jpg"))
    Image.open(copied).resize((300, 260)).save(images / "copy.jpg", quality=80)
    torch.manual_seed(0)
    weights = root / "start.pt"
    torch.save(VisionTransformer(vit_config("vit_test")).state_dict(), weights)
    return {"images": images, "labeled": labeled, "weights": weights}


def adapt(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pretrain", "adapt", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def words_of(folders: dict[str, Path], out: Path) -> list[str]:
    return [*(f"{name}={path}" for name, path in folders.items()), f"out={out}", *SMALL]


@pytest.mark.slow
def test_from_images_to_a_verdict(folders: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = adapt(*words_of(folders, out))
    assert done.returncode == 0, done.stdout + done.stderr
    found = read_document(Adaptation, out / "adaptation.json", "a result")
    assert found.presentations == 640
    assert found.labeled_images == len(list(folders["labeled"].rglob("*.jpg")))
    last = done.stdout.splitlines()[-1]
    expected = {
        "better": "better than the start",
        "worse": "kept the start",
        "no difference": "no difference to the start",
    }
    assert expected[found.outcome] in last
    assert (out / "release" / "SHA256SUMS").exists() == (found.outcome == "better")
    certificate = ShardFolder(out / "shards").read_manifest().leakage
    assert certificate is not None
    assert certificate.frames_dropped >= 1  # the copy
    again = adapt(*words_of(folders, out))
    assert again.returncode == 0
    assert "data_pipeline shard" not in again.stdout
    assert again.stdout.splitlines()[-1].split(" ", 1)[1] == last.split(" ", 1)[1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"labeled": "nowhere"}, "labeled=nowhere does not exist"),
        ({"images": "nowhere"}, "images=nowhere is no folder"),
        ({"image_px": "30"}, "image_px=30 is not a multiple of the patches' 14 pixels"),
        ({"weights": "nowhere.pt"}, "nowhere.pt"),
    ],
)
def test_what_is_wrong_is_said_before_any_work(tmp_path: Path, changes: dict[str, str], said: str) -> None:
    """In this process: a wrong word must not cost the seconds that an import of torch takes."""
    weights = tmp_path / "start.pt"
    torch.save(VisionTransformer(vit_config("vit_test")).state_dict(), weights)
    words = {"images": tmp_path, "labeled": tmp_path, "weights": weights, "out": tmp_path / "out"} | changes
    config = load_config(AdaptConfig, None, [f"{key}={value}" for key, value in words.items()])
    with pytest.raises(UserError, match=re.escape(said)):
        run_adapt(config)
    assert not (tmp_path / "out").exists()
