"""`recenter`: the mean feature of a domain is taken out of the final norm's bias, and nothing else changes."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from backbone_cases import random_model
from PIL import Image

from panendofm.backbone import LoadedBackbone, Preprocessing, load_backbone, vit_config
from panendofm.backbone.__main__ import STAGE
from panendofm.backbone.recenter import evenly, recentered, some_images
from panendofm.backbone.weights.load import Origin
from panendofm.runtime.command_line import run_stage

COMMON = 20.0  # length of the vector that all features share


def images(count: int, seed: int = 0) -> list[Image.Image]:
    random = np.random.default_rng(seed)
    return [Image.fromarray(random.integers(0, 256, (60, 80, 3), dtype=np.uint8)) for _ in range(count)]


@pytest.fixture
def loaded() -> LoadedBackbone:
    """A network whose features all point nearly the same way."""
    model = random_model(vit_config("vit_test"))
    with torch.no_grad():
        model.norm.bias.add_(COMMON / model.norm.bias.numel() ** 0.5)
    return LoadedBackbone(model, Preprocessing().at_crop(56), "vit_test", "panendofm", "", None, Origin("panendofm"))


def features(backbone: LoadedBackbone, images: list[Image.Image]) -> torch.Tensor:
    with torch.no_grad():
        return backbone.model(torch.stack([backbone.preprocessing(image) for image in images])).cls


def test_features_keep_their_differences_and_lose_their_mean(loaded: LoadedBackbone) -> None:
    seen, unseen = images(12), images(5, seed=1)
    before, before_unseen = features(loaded, seen), features(loaded, unseen)
    old = {name: tensor.clone() for name, tensor in loaded.model.state_dict().items()}
    found = recentered(loaded, seen, batch_size=5)
    after, after_unseen = features(found.backbone, seen), features(found.backbone, unseen)
    assert after.mean(dim=0).abs().max() < 1e-5
    torch.testing.assert_close(after_unseen, before_unseen - before.mean(dim=0), rtol=0, atol=1e-4)
    assert found.images == 12 and found.common_before > 0.8 and found.common_after < 1e-3
    changed = [name for name, tensor in found.backbone.model.state_dict().items() if not torch.equal(tensor, old[name])]
    assert changed == ["norm.bias"]


def test_the_command_writes_weights_that_every_stage_reads(
    loaded: LoadedBackbone, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start, out = tmp_path / "start.pth", tmp_path / "centred.safetensors"
    torch.save(loaded.model.state_dict(), start)
    for number, image in enumerate(images(9)):
        image.save(tmp_path / f"{number}.png")
    words = ["recenter", str(start), str(tmp_path), f"out={out}", "crop_px=56", "device=cpu"]
    with pytest.raises(SystemExit) as ended:
        run_stage(STAGE, words)
    assert not ended.value.code
    said = capsys.readouterr().out
    again = load_backbone(out)
    assert again.preprocessing.crop_px == 56 and again.preprocessing.resize_px == 64
    assert features(again, images(9)).mean(dim=0).abs().max() < 1e-4
    assert "the mean of 9 images held" in said and again.weights_sha256 in said


@pytest.mark.parametrize("words", ["images=0", "crop_px=0", "crop_px=100"])
def test_senseless_numbers_are_refused_and_nothing_is_written(
    loaded: LoadedBackbone, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, str]
) -> None:
    start, out = tmp_path / "start.pth", tmp_path / "centred.safetensors"
    torch.save(loaded.model.state_dict(), start)
    images(1)[0].save(tmp_path / "a.png")
    with pytest.raises(SystemExit) as ended:
        run_stage(STAGE, ["recenter", str(start), str(tmp_path), f"out={out}", words])
    assert ended.value.code == 2 and not out.exists()
    error = capsys.readouterr().err
    assert error.startswith("error: ") and "\n" not in error.strip()


def test_of_many_shards_some_are_opened(tmp_path: Path) -> None:
    for number in range(70):
        shard = tmp_path / f"shard-{number:06d}.tar"
        if number % 3:
            shard.write_bytes(b"not opened")
            continue
        with tarfile.open(shard, "w") as archive:
            images(1, number)[0].save(tmp_path / "a.png")
            archive.add(tmp_path / "a.png", f"{number}.png")
    (tmp_path / "a.png").unlink()
    chosen = some_images([tmp_path], 10)
    assert len(chosen) == 10
    np.testing.assert_array_equal(np.asarray(chosen[0]), np.asarray(images(1, 0)[0]))
    np.testing.assert_array_equal(np.asarray(chosen[9]), np.asarray(images(1, 3 * (9 * 24 // 10))[0]))


def test_another_size_shows_as_much_of_the_image() -> None:
    assert Preprocessing().at_crop(112) == Preprocessing(128, 112)
    assert Preprocessing(224, 224, squash=True).at_crop(112) == Preprocessing(112, 112, squash=True)


def test_images_are_chosen_evenly() -> None:
    chosen = evenly(list(range(10)), 4)
    assert [chosen[i] for i in range(len(chosen))] == [0, 2, 5, 7]
    assert len(evenly(list(range(3)), 4)) == 3
