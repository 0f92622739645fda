"""Teachers of other families: their tokens on the student's grid, and runs that are exact."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from engine_runs import assert_same_run, metrics_of, run_ranks, words_of
from safetensors.torch import load_file, save_file

from panendofm.backbone import Preprocessing, SafeReader
from panendofm.backbone.torchvision_shim import ensure_torchvision
from panendofm.records.run import RunFolder
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from pretrain import PretrainConfig
from pretrain.distill_teacher import teacher_form
from pretrain.objective.distillation.foreign_teacher import ForeignForm, foreign_form
from pretrain.plan.requirements import requirements_of

MEAN, STD = (0.5, 0.4, 0.3), (0.5, 0.25, 0.2)


@pytest.fixture(scope="module")
def dinov3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny DINOv3 as transformers saves it: patches of 16 px, four registers, rotary positions."""
    ensure_torchvision()
    from transformers import DINOv3ViTConfig, DINOv3ViTModel

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("dinov3")
    sizes = {"hidden_size": 24, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    DINOv3ViTModel(DINOv3ViTConfig(**sizes, image_size=64, num_register_tokens=4)).save_pretrained(folder)
    settings = {"size": 64, "crop_size": 64, "image_mean": MEAN, "image_std": STD}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def fixed_size(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A timm ViT whose positions fit 32 px alone."""
    ensure_torchvision()
    import timm

    folder = tmp_path_factory.mktemp("timm")
    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 24, "depth": 1, "num_heads": 2}
    torch.manual_seed(0)
    network = timm.create_model("vit_tiny_patch16_224", num_classes=0, **sizes)
    save_file(network.state_dict(), folder / "model.safetensors")
    settings = {"input_size": [3, 32, 32], "crop_pct": 1.0}
    values = {"architecture": "vit_tiny_patch16_224", "model_args": sizes, "pretrained_cfg": settings}
    (folder / "config.json").write_text(json.dumps(values))
    return folder


def test_the_teacher_sees_what_its_library_would_show_it(dinov3: Path) -> None:
    from transformers import AutoModel

    form = foreign_form(f"transformers:{dinov3}", patch_px=14, global_px=42)
    torch.manual_seed(1)
    crops = torch.randn(2, 3, 42, 42)  # normalized for the student
    own = Preprocessing()
    as_given = crops * torch.tensor(own.std)[:, None, None] + torch.tensor(own.mean)[:, None, None]
    as_wanted = (as_given - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
    enlarged = F.interpolate(as_wanted, (48, 48), mode="bicubic", antialias=True)  # 3 × 3 patches of 16 px
    with torch.no_grad():
        wanted = AutoModel.from_pretrained(dinov3).eval()(pixel_values=enlarged)
        seen = form.teacher(crops)
    torch.testing.assert_close(seen.cls, wanted.pooler_output, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(seen.patches, wanted.last_hidden_state[:, 5:], rtol=1e-4, atol=1e-4)
    assert seen.patches.shape == (2, 9, 24)


def test_a_timm_network_gives_the_same_in_one_pass(fixed_size: Path) -> None:
    form = foreign_form(f"timm:{fixed_size}", patch_px=14, global_px=56)
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        vector, patches = form.teacher.network.vector_and_map(images)  # type: ignore[operator]
        assert torch.equal(vector, form.teacher.network(images))
        assert torch.equal(patches, form.teacher.network.feature_maps(images)[-1])  # type: ignore[operator]


def _words(run: Path, shards: Path, teacher: str, **changes: object) -> list[str]:
    keys = {"objective__kind": "distill", "distill__teacher": teacher, "model__drop_path": 0.0}
    return words_of(run, shards, **{**keys, **changes})


def test_a_run_is_exact_and_keeps_its_teacher(dinov3: Path, shards: Path, tmp_path: Path) -> None:
    teacher = f"transformers:{dinov3}"
    whole, stopped, alone = tmp_path / "whole", tmp_path / "stopped", tmp_path / "alone"
    run_ranks(_words(whole, shards, teacher), 2)
    for stop in ("5 steps", None):
        run_ranks(_words(stopped, shards, teacher, run__stop_at=stop), 2)
    assert_same_run(whole, stopped, 12)
    run_ranks(_words(alone, shards, teacher), 1)
    losses = [row["patch_features"] for row in metrics_of(whole)]
    assert [row["patch_features"] for row in metrics_of(alone)] == pytest.approx(losses, rel=1e-5)
    assert losses[-1] < losses[0]
    stored = SafeReader(RunFolder(whole).checkpoint(12)).read_metadata().state_dict_metadata
    assert not [name for name in stored if name.startswith("distill_teacher.")]


def test_other_weights_are_refused_when_a_run_goes_on(dinov3: Path, shards: Path, tmp_path: Path) -> None:
    folder = tmp_path / "teacher"
    folder.mkdir()
    for file in dinov3.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    words = _words(tmp_path / "run", shards, f"transformers:{folder}")
    run_ranks([*words, "run.stop_at=5 steps"], 1)
    tensors = load_file(folder / "model.safetensors")
    tensors["norm.weight"] *= 2
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    assert "does not hold the weights that the run" in run_ranks(words, 1, expect=2)


def test_a_fixed_size_names_the_crop_that_fits(fixed_size: Path, shards: Path, tmp_path: Path) -> None:
    config = load_config(PretrainConfig, None, _words(tmp_path / "run", shards, f"timm:{fixed_size}"))
    assert config.augment.global_px == 28
    with pytest.raises(UserError, match=r"takes no images of 16 px.*set augment\.global_px=56\."):
        teacher_form(config)


def test_a_network_without_patches_is_refused(shards: Path, tmp_path: Path) -> None:
    from transformers import ResNetConfig, ResNetModel

    folder = tmp_path / "resnet"
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 8], "depths": [1, 1], "layer_type": "basic"}
    ResNetModel(ResNetConfig(**sizes)).save_pretrained(folder)
    config = load_config(PretrainConfig, None, _words(tmp_path / "run", shards, f"transformers:{folder}"))
    with pytest.raises(UserError, match="gives no features of patches"):
        teacher_form(config)


def test_the_plan_counts_it(dinov3: Path, shards: Path, tmp_path: Path) -> None:
    words = _words(tmp_path / "run", shards, f"transformers:{dinov3}")
    config = load_config(PretrainConfig, None, words)
    needs = requirements_of(config, 2, 2)
    form = teacher_form(config)
    assert form is not None
    network = form.network
    assert isinstance(network, ForeignForm)
    parameters = sum(parameter.numel() for parameter in network.teacher.parameters())
    held = 4 * parameters  # whole on both ranks
    student = replace(config, distill=replace(config.distill, loss="features"))
    assert needs.memory.teacher > held
    assert needs.parameters.anchor == 0  # checkpoints do not hold it
    assert requirements_of(student, 2, 2).flops_per_image > 2 * network.flops
