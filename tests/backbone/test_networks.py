"""Which network a word means: every family, what each can give, what is remembered, and plausible mistakes."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from backbone_cases import random_model, save_checkpoint
from PIL import Image

from panendofm.backbone import FeatureCache, FeatureKind, Preprocessing, ensure_torchvision, load_backbone, vit_config
from panendofm.backbone.command_config import ExportConfig
from panendofm.backbone.networks import Outputs, find_network, find_networks, network_features
from panendofm.backbone.release import export_release
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_text


def test_every_word_gives_a_vector_and_the_maps_that_it_names(network_words: dict[str, str]) -> None:
    networks = find_networks(list(network_words.values()))
    assert [network.name for network in networks] == list(network_words), "names that differ"
    assert [network.word for network in networks] == list(network_words.values())
    for network in networks:
        module, side = network.load(), network.preprocessing.crop_px
        assert not module.training
        images = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            vector = FeatureKind().of(module, images)
            maps = module.feature_maps(images, network.outputs.maps)
            last = module.feature_maps(images)
        assert vector.ndim == 2 and len(vector) == 2
        assert len(maps) == network.outputs.maps > 0 and len(last) == 1 and torch.equal(maps[-1], last[0])
        for one in maps:
            assert one.ndim == 4 and len(one) == 2 and torch.isfinite(one).all()


def test_maps_are_patch_tokens_on_their_grid(network_words: dict[str, str]) -> None:
    network = find_network(network_words["small"])
    assert network.outputs == Outputs(blocks=3, maps=3)
    module = network.load()
    images = torch.randn(1, 3, 28, 70)  # 2 × 5 patches
    with torch.no_grad():
        maps, blocks = module.feature_maps(images, 2), module.intermediate(images, 2)
    for one, tokens in zip(maps, blocks, strict=True):
        assert one.shape == (1, 32, 2, 5)
        assert torch.equal(one[0, :, 1, 3], tokens.patches[0, 5 + 3])


def test_maps_of_a_convolutional_network_end_before_its_pooling(network_words: dict[str, str]) -> None:
    module = find_network(network_words["resnet10t"]).load()
    with torch.no_grad():
        images = torch.randn(2, 3, 64, 64)
        *_, last = module.feature_maps(images, 5)
        torch.testing.assert_close(last.mean(dim=(2, 3)), module(images))


def test_maps_of_a_transformers_folder_leave_the_cls_token_out(network_words: dict[str, str]) -> None:
    module = find_network(network_words["tiny"]).load()
    images = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        states = module.encoder(pixel_values=images).last_hidden_state  # after the norm
        torch.testing.assert_close(module.feature_maps(images)[0].flatten(2).mT, states[:, 1:])


def test_weights_of_a_timm_file_and_folder_are_one_network(network_words: dict[str, str]) -> None:
    ensure_torchvision()
    import timm
    from safetensors.torch import load_file

    from_file, from_folder = find_network(network_words["resnet10t"]), find_network(network_words["resnet10t-2"])
    assert from_file.weights_sha256 == from_folder.weights_sha256
    assert (from_folder.preprocessing.resize_px, from_folder.preprocessing.crop_px) == (128, 64)
    original = timm.create_model("resnet10t", num_classes=5).eval()
    original.load_state_dict(load_file(network_words["resnet10t"].partition("@")[2]))
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        expected = original.forward_head(original.forward_features(images), pre_logits=True)
        torch.testing.assert_close(from_file.load()(images), expected)


def test_the_folders_of_a_release_are_built_in_its_sizes(tmp_path: Path) -> None:
    torch.save(random_model(vit_config("vit_test", image_px=224)).state_dict(), tmp_path / "w.pt")
    export_release(tmp_path / "w.pt", ExportConfig(str(tmp_path / "release"), formats=["hub", "timm", "transformers"]))
    images = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        expected = find_network(str(tmp_path / "release")).load()(images).cls
        for word in (f"timm:{tmp_path / 'release'}", f"transformers:{tmp_path / 'release' / 'transformers'}"):
            network = find_network(word)
            assert not network.baseline and network.preprocessing == Preprocessing()
            torch.testing.assert_close(network.load()(images), expected, rtol=1e-4, atol=1e-5)


def test_pre_processing_of_a_transformers_folder(network_words: dict[str, str], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(network_words["tiny"].partition(":")[2], tmp_path / "tiny"))
    file = folder / "preprocessor_config.json"
    both = {"size": {"height": 32, "width": 32}, "resample": 2, "image_mean": [0.5] * 3, "image_std": [0.25] * 3}
    write_text(file, json.dumps(both))
    squashed = Preprocessing(32, 32, "bilinear", (0.5,) * 3, (0.25,) * 3, squash=True)
    assert find_network(f"transformers:{folder}").preprocessing == squashed
    short = {"size": {"shortest_edge": 40}, "crop_size": {"height": 32, "width": 32}, "resample": 3}
    write_text(file, json.dumps(short))
    assert find_network(f"transformers:{folder}").preprocessing == Preprocessing(40, 32)
    write_text(file, json.dumps({"size": {"longest_edge": 40}}))
    with pytest.raises(UserError, match=r"preprocessor_config.json: its size, crop_size, .* can't be understood"):
        find_network(f"transformers:{folder}")


def test_pixels_are_the_mean_colors_of_the_crop() -> None:
    pixels = np.zeros((224, 224, 3), np.uint8)
    pixels[:14, 14:28] = (255, 0, 0)  # the second of 16 fields in the first row
    network = find_network("pixels")
    seen = network.preprocessing(Image.fromarray(pixels).resize((256, 256), Image.Resampling.NEAREST))
    assert seen.shape == (3, 224, 224)
    feature = network.load()(torch.arange(224.0).repeat(1, 3, 224, 1))  # values rise from left to right
    assert feature.shape == (1, 768)
    torch.testing.assert_close(feature[0, :16], torch.arange(16.0) * 14 + 6.5)


def test_random_weights_are_always_the_same(network_words: dict[str, str]) -> None:
    state = torch.get_rng_state()
    first, second = find_network("untrained:vit_test"), find_network(network_words["untrained-vit_test-2"])
    assert torch.equal(torch.get_rng_state(), state), "nobody else's random numbers change"
    assert first.weights_sha256 == second.weights_sha256 != find_network(network_words["small"]).weights_sha256


# ------------------------------------------------------------------------------------- runs, memory and features


def test_a_run_stands_for_its_selected_checkpoint_else_its_latest(tmp_path: Path) -> None:
    run = tmp_path / "a"
    for step in (10, 20):
        save_checkpoint(random_model(vit_config("vit_test"), step), run / "checkpoints" / f"step_{step:07d}", step)
    latest = find_network(str(run))
    assert (latest.name, latest.step, latest.source) == ("a", 20, "checkpoint")
    (run / "best").symlink_to(Path("checkpoints") / "step_0000010")
    best, by_link = find_network(str(run)), find_network(str(run / "best"))
    assert best.step == by_link.step == 10 and by_link.name == "step_0000010"
    assert best.path is not None and best.path.resolve() == (run / "best").resolve()


def test_descriptions_are_remembered_until_the_files_change(
    network_words: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(shutil.copy(network_words["small"], tmp_path / "w.pt"))
    reads: Counter[str] = Counter()

    def counted(path: Path) -> object:
        reads[Path(path).name] += 1
        return load_backbone(path)

    monkeypatch.setattr("panendofm.backbone.networks.dinov2.load_backbone", counted)
    first = find_network(str(file), tmp_path / "cache")
    assert first.load() is not None and reads["w.pt"] == 1, "what was read to describe it is what is loaded"
    second = find_network(str(file), tmp_path / "cache")
    assert reads["w.pt"] == 1
    assert (second.weights_sha256, second.outputs, second.preprocessing) == (
        first.weights_sha256,
        first.outputs,
        first.preprocessing,
    )
    second.load()
    assert reads["w.pt"] == 2
    os.utime(file, ns=(1, 1))
    find_network(str(file), tmp_path / "cache")
    assert reads["w.pt"] == 3
    (memory,) = (tmp_path / "cache" / "weights").iterdir()
    memory.write_text("{}")
    assert find_network(str(file), tmp_path / "cache").weights_sha256 == first.weights_sha256
    assert reads["w.pt"] == 4


def test_features_are_computed_once_for_all_stages(network_words: dict[str, str], tmp_path: Path) -> None:
    paths = []
    for i in range(3):
        paths.append(tmp_path / f"{i}.png")
        Image.fromarray(np.random.default_rng(i).integers(0, 255, (80, 90, 3), dtype=np.uint8)).save(paths[-1])
    network, cache = find_network(network_words["tiny"]), FeatureCache(tmp_path / "features")
    first = network_features(network, paths, "these", cache, batch_size=2, device="cpu")
    with torch.no_grad():
        module = network.load()
        expected = torch.cat([module(network.preprocessing(path)[None]) for path in paths])
    torch.testing.assert_close(first, expected)
    for path in paths:
        path.unlink()
    assert torch.equal(network_features(network, paths, "these", cache), first)
    with pytest.raises(UserError, match="cannot read the image"):
        network_features(network, paths, "others", cache)


# --------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("nowhere/weights.pth", r"from nowhere/weights.pth: it does not exist; check the path"),
        ("pixel", r"it does not exist; did you mean 'pixels'\?"),
        ("tim:resnet50", r"did you mean 'timm:resnet50'\?"),
        ("timm:resnet51", r"timm has no model 'resnet51'"),
        ("timm:resnet10t@nowhere.pth", r"the file nowhere.pth does not exist"),
        ("endofm:nowhere.pth", r"nowhere.pth does not exist"),
        ("untrained:vit_enormous", r"cannot load a backbone from vit_enormous"),
        ("transformers:nowhere", r"config.json is missing; name a transformers folder"),
    ],
)
def test_mistakes_are_one_sentence(word: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        find_network(word)
    assert "\n" not in str(refused.value)


def test_timm_weights_that_do_not_fit(network_words: dict[str, str], tmp_path: Path) -> None:
    file = Path(network_words["resnet10t"].partition("@")[2])
    (tmp_path / "bad.safetensors").write_bytes(file.read_bytes()[:1000])
    with pytest.raises(UserError, match=r"bad.safetensors"):
        find_network(f"timm:resnet10t@{tmp_path / 'bad.safetensors'}")
    with pytest.raises(UserError, match=r"\(timm's resnet14t\) does not fit its network: \d+ tensors are missing"):
        find_network(f"timm:resnet14t@{file}")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="the key 'architecture' is missing"):
        find_network(f"timm:{tmp_path}")
    (tmp_path / "config.json").write_text('{"architecture": "resnet10t"}')
    with pytest.raises(UserError, match=r"no weights there; model.safetensors or pytorch_model.bin"):
        find_network(f"timm:{tmp_path}")
