"""fp16 and int8 graphs: what they compute, what the card says of them, and what is refused."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from panendofm.backbone import VisionTransformer, ViTConfig, load_backbone, vit_config
from panendofm.backbone.command_config import ExportConfig
from panendofm.backbone.release import export_release, verify_release
from panendofm.deployment.compress import compress_release
from panendofm.deployment.config import FP16, FP32, INT8, CompressConfig
from panendofm.deployment.graph import Graph
from panendofm.deployment.quantize import linear_layers, write_int8
from panendofm.records.release import ReleaseFolder, ReleaseInfo
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError

FORM = vit_config("vit_small_patch14_reg4", image_px=56, depth=2, width=64, heads=4)
CLASSES = ("polyp", "cecum")


def random_model(config: ViTConfig) -> VisionTransformer:
    """Blocks that matter: the first LayerScale factors of an untrained network are next to nothing."""
    torch.manual_seed(0)
    model = VisionTransformer(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3 if name.endswith("gamma") else 0.05)
    return model


def draw_image(seed: int, side: int = 80) -> Image.Image:
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (5, 5, 3), np.uint8))
    return coarse.resize((side, side), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labeled images, images with masks, and images to calibrate on."""
    folder = tmp_path_factory.mktemp("deployment")
    for number, name in enumerate(CLASSES):
        for row in range(8):
            tinted = np.asarray(draw_image(100 * number + row), np.int32) // 2 + np.array([100, 0, 0]) * number
            path = folder / "labeled" / name / f"{row}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(tinted.astype(np.uint8)).save(path)
    for row in range(12):
        image, mask = np.array(draw_image(row)), np.zeros((80, 80), np.uint8)
        mask[20:60, 5 * (row % 4) : 40] = 255
        image[mask > 0] = (220, 40, 40)
        for part, pixels in (("images", image), ("masks", mask)):
            path = folder / "masked" / part / f"{row}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
    (folder / "calibration").mkdir()
    for row in range(10):
        draw_image(1000 + row).save(folder / "calibration" / f"{row}.png")
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    torch.save(random_model(FORM).state_dict(), folder / "weights.pt")
    release = folder / "small"
    export_release(folder / "weights.pt", ExportConfig(str(release), formats=["hub", "onnx"], image_px=56))
    return release


@pytest.fixture(scope="module")
def compressed(plain: Path, data: Path) -> tuple[ReleaseFolder, ReleaseInfo]:
    out = plain.parent / "smaller"
    words = [f"out={out}", f"calibration={data / 'calibration'}", "k=5", f"labeled={data / 'labeled'}"]
    words += [f"masks=[{data / 'masked'}]", "masks_px=56", f"cache={plain.parent / 'cache'}", "bootstrap.replicates=50"]
    return ReleaseFolder(out), compress_release(plain, load_config(CompressConfig, None, words))


def test_the_graphs_compute_what_the_weights_do(compressed: tuple[ReleaseFolder, ReleaseInfo]) -> None:
    folder, _ = compressed
    loaded = load_backbone(folder.path)
    images = torch.stack([loaded.preprocessing(draw_image(row)) for row in range(3)])[:, :, :, :-14]  # not square
    with torch.no_grad():
        tokens = loaded.model(images)
    grid = tokens.patches.transpose(1, 2).unflatten(2, (images.shape[2] // 14, images.shape[3] // 14))
    for kind, allowed in ((FP32, 1e-4), (FP16, 5e-3), (INT8, 0.1)):
        graph = Graph(folder.weights(kind), 14)
        for ours, theirs in ((tokens.cls, graph(images)), (grid, graph.feature_maps(images)[0])):
            assert theirs.dtype == torch.float32 and theirs.shape == ours.shape
            difference = float((ours - theirs).norm() / ours.norm())
            assert difference < allowed, kind
            assert kind == FP32 or difference > 1e-5, "it really is in fewer bits"
    sizes = {kind: folder.weights(kind).stat().st_size for kind in (FP32, FP16, INT8)}
    assert max(sizes[INT8], sizes[FP16]) < sizes[FP32]


def test_the_card_states_what_they_cost(compressed: tuple[ReleaseFolder, ReleaseInfo]) -> None:
    folder, release = compressed
    verify_release(folder.path)
    assert folder.read() == release
    card = folder.model_card.read_text()
    assert card.index("## Smaller graphs") < card.index("## Limits")
    for kind in (FP16, INT8):
        graph = release.smaller[kind]
        assert [metric.metric for metric in graph.kept] == ["kNN top-1, k = 5", "mask IoU"]
        for metric in graph.kept:
            assert 0 < metric.images <= 16
            assert metric.low <= metric.difference <= metric.high
            assert f"{metric.before:.3f} | {metric.after:.3f}" in re.sub(r" +", " ", card)
    assert release.smaller[INT8].calibration_images == 10
    assert "found on 10 images" in card


@pytest.mark.parametrize("kind", [FP16, INT8])
def test_the_snippet_runs_with_each_graph(
    compressed: tuple[ReleaseFolder, ReleaseInfo], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, release = compressed
    draw_image(0, 300).save(folder.path / "image.jpg")
    monkeypatch.chdir(folder.path)
    snippets = re.findall(r"### onnxruntime\n\n```python\n(.+?)```", folder.model_card.read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(snippets[0].replace("onnx/model.onnx", release.weights[kind]), names)
    loaded = load_backbone(folder.path)
    with torch.no_grad():
        ours = loaded.model(loaded.preprocessing(folder.path / "image.jpg")[None])
    assert names["features"].shape == ours.cls.shape
    assert names["patches"].shape == ours.patches.shape
    assert float((torch.from_numpy(names["features"]) - ours.cls).norm() / ours.cls.norm()) < 0.1
    (folder.path / "image.jpg").unlink()


def test_uneven_inputs_are_evened_out_and_outliers_left_alone(tmp_path: Path) -> None:
    """One channel of each norm far above the others, and one value of a GELU, of the cls token alone, above all."""
    model = random_model(FORM)
    layers = linear_layers(model)
    with torch.no_grad():
        for name in ("norm1", "norm2"):
            for block in model.blocks:
                getattr(block, name).weight[3] *= 300
        for layer in ("qkv", "fc1"):
            for number in range(FORM.depth):
                layers[f"block {number} {layer}"].weight[:, 3] /= 300
    batches = [torch.randn(4, 3, 56, 56)]
    seen: list[torch.Tensor] = []
    fc1 = layers["block 1 fc1"]
    hook = fc1.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].flatten(0, -2)))  # [T, D]
    with torch.no_grad():
        model(batches[0])
        hook.remove()
        of_cls = seen[0][0].clone()
        of_cls[3] = 0.0
        others = float((seen[0][1:] @ of_cls).topk(4).values[3])  # beside the cls tokens of the other three images
        steepness = 400 / (float(of_cls @ of_cls) - others)
        fc1.weight[5] = steepness * of_cls
        fc1.bias[5] = -steepness * others
        layers["block 1 fc2"].weight[:, 5] = 0.0  # what is so large does nothing but widen the range
    with torch.no_grad():
        ours = model(batches[0]).cls
    differences = {}
    for outlier in (20.0, 1e9):
        path = tmp_path / f"{outlier}.onnx"
        kept = write_int8(model, batches, outlier, path)
        assert kept == (["block 1 fc2"] if outlier == 20.0 else [])
        differences[outlier] = float((Graph(path, 14)(batches[0]) - ours).norm() / ours.norm())
    assert differences[20.0] < 0.05 < differences[1e9]


def test_what_is_refused(
    plain: Path, data: Path, tmp_path: Path, compressed: tuple[ReleaseFolder, ReleaseInfo]
) -> None:
    with pytest.raises(UserError, match="calibration="):
        load_config(CompressConfig, None, [f"out={tmp_path / 'a'}"])
    words = [f"out={tmp_path / 'a'}", "formats=[onnx-fp16]"]
    with pytest.raises(UserError, match="has onnx-fp16 already"):
        compress_release(compressed[0].path, load_config(CompressConfig, None, words))
    changed = tmp_path / "changed"
    shutil.copytree(plain, changed)
    (changed / "onnx" / "model.onnx").write_bytes(b"not the graph")
    with pytest.raises(UserError, match="was changed"):
        compress_release(changed, load_config(CompressConfig, None, words))
    swiglu = ViTConfig(width=64, depth=1, heads=4, image_px=56, ffn="swiglu")
    with pytest.raises(UserError, match="leave onnx-int8 out"):
        write_int8(random_model(swiglu), [torch.randn(1, 3, 56, 56)], 20.0, tmp_path / "b.onnx")
