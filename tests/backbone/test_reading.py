"""Which block and pooling is read: the words, the tokens themselves, and what the cache keeps apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from panendofm.backbone import VisionTransformer, vit_config
from panendofm.backbone.feature_cache import FeatureCache, FeatureKey
from panendofm.backbone.features import FeatureKind
from panendofm.backbone.networks import Network, Outputs, network_features, reading_of
from panendofm.backbone.preprocessing import Preprocessing
from panendofm.runtime.errors import UserError

SMALL = Preprocessing(resize_px=64, crop_px=56)


@pytest.fixture(scope="module")
def model() -> VisionTransformer:
    torch.manual_seed(0)
    model = VisionTransformer(replace(vit_config("vit_test"), registers=2, depth=4, layerscale_init=1.0)).eval()
    torch.nn.init.uniform_(model.norm.weight, 0.5, 2.0)  # so that a missing norm shows
    return model


@pytest.fixture
def network(model: VisionTransformer) -> Network:
    outputs = Outputs(blocks=4, maps=4)
    return Network("small", "small", "test", "vit", "a" * 64, SMALL, lambda: model, outputs)


@torch.no_grad()
def by_hand(model: VisionTransformer, images: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """cls and mean patch token behind block `number` (from 1), caught on the way and normed here."""
    caught: list[Tensor] = []
    handle = model.blocks[number - 1].register_forward_hook(lambda _module, _inputs, out: caught.append(out))
    model(images)
    handle.remove()
    tokens = model.norm(caught[0]).unflatten(0, (len(images), -1))  # [B, 1 + 2 + N, D]
    return tokens[:, 0], tokens[:, 3:].mean(1)


@pytest.mark.parametrize(("word", "number"), [("1", 1), ("3", 3), ("-2", 3), ("-4", 1), ("last", 4), ("4", 4)])
def test_a_block_is_that_block(model: VisionTransformer, network: Network, word: str, number: int) -> None:
    images = torch.randn(3, 3, 56, 56)
    cls, mean = by_hand(model, images, number)
    for pooling, expected in (("cls", cls), ("mean", mean), ("both", torch.cat([cls, mean], dim=1))):
        reading = reading_of(network, word, pooling)
        (choice,) = reading.choices
        with torch.no_grad():
            found = choice.of(reading.kind.of(model, images))
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        if (number, pooling) != (4, "cls"):
            assert f"block {number} of 4" in choice.name


def test_the_last_block_and_cls_are_the_networks_own_output_as_ever(network: Network) -> None:
    for word in ("last", "4", "-1"):
        assert reading_of(network, word, "cls").kind == FeatureKind()
    # Features that were cached before blocks could be named are still found.
    assert FeatureKey("a", "b", SMALL).to_dict()["kind"] == {"layers": 1, "patch_mean": False}
    assert FeatureKind(**FeatureKind(blocks=(-3, -1)).to_dict()) == FeatureKind(blocks=(-3, -1))


def test_auto_holds_the_later_half_and_every_pooling(model: VisionTransformer, network: Network) -> None:
    reading = reading_of(network, "auto", "auto")
    names = [choice.name for choice in reading.choices]
    assert names[0] == "cls, block 4 of 4" and len(names) == len(set(names)) == 6
    images = torch.randn(2, 3, 56, 56)
    with torch.no_grad():
        features = reading.kind.of(model, images)
    for choice in reading.choices:
        cls, mean = by_hand(model, images, int(choice.name.split()[-3]))
        expected = {"cls": cls, "mean patch": mean, "cls+mean patch": torch.cat([cls, mean], 1)}
        torch.testing.assert_close(choice.of(features), expected[choice.name.split(",")[0]], rtol=1e-5, atol=1e-5)


def test_the_cache_keeps_blocks_apart(network: Network, model: VisionTransformer, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    Image.fromarray(random.integers(0, 256, (70, 80, 3), dtype=np.uint8)).save(tmp_path / "a.png")
    cache = FeatureCache(tmp_path / "cache")

    def features(block: str, pooling: str) -> Tensor:
        reading = reading_of(network, block, pooling)
        found = network_features(network, [tmp_path / "a.png"], "data", cache, reading.kind, device="cpu")
        return reading.choices[0].of(found)

    for _ in range(2):  # computed, then from the cache
        for word, number in (("1", 1), ("2", 2), ("last", 4)):
            cls, mean = by_hand(model, SMALL(tmp_path / "a.png")[None], number)
            torch.testing.assert_close(features(word, "cls"), cls, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(features(word, "mean"), mean, rtol=1e-5, atol=1e-5)
    # The own output, and one file each of blocks 1, 2 and 4, whatever the pooling.
    assert len(list((tmp_path / "cache").glob("*.npy"))) == 4


@pytest.mark.parametrize(
    ("block", "pooling", "named"),
    [("0", "cls", "'0'"), ("first", "cls", "'first'"), ("5", "cls", "has 4 blocks"), ("-5", "cls", "has 4 blocks"),
     ("last", "max", "'max'")],
)  # fmt: skip
def test_words_that_mean_nothing(network: Network, block: str, pooling: str, named: str) -> None:
    with pytest.raises(UserError, match=named) as caught:
        reading_of(network, block, pooling, "features.")
    assert "features." in str(caught.value) and str(caught.value).count("\n") == 0


def test_networks_without_blocks(network: Network, capsys: pytest.CaptureFixture[str]) -> None:
    plain = replace(network, outputs=Outputs(maps=1))
    assert reading_of(plain, "last", "cls").choices[0].name == "output"
    for block, pooling in (("3", "cls"), ("last", "mean"), ("auto", "both")):
        with pytest.raises(UserError, match="small has no blocks that can be read"):
            reading_of(plain, block, pooling)
    assert reading_of(plain, "auto", "auto").kind == FeatureKind()
    assert "no blocks to choose from" in capsys.readouterr().out
