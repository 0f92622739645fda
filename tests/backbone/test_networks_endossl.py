"""The adapter for EndoSSL, on a tiny checkpoint that Flax itself wrote and ran (tests/golden/make_endossl.py)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import torch
from PIL import Image

from panendofm.backbone.networks import Network, Outputs, find_network
from panendofm.backbone.networks.endossl import endossl_from, read_flax_teacher
from panendofm.runtime.errors import UserError


@pytest.fixture
def checkpoint(golden: Path, tmp_path: Path) -> Path:
    """The file as it lies in a published folder."""
    (tmp_path / "vits_colono").mkdir()
    return Path(shutil.copy(golden / "endossl_flax.msgpack", tmp_path / "vits_colono" / "checkpoint_0"))


def load(checkpoint: Path) -> Network:
    return find_network(f"endossl:{checkpoint}")


def test_the_same_numbers_as_flax(checkpoint: Path, golden: Path) -> None:
    expected = np.load(golden / "endossl_flax.npz")
    network = load(checkpoint)
    assert (network.name, network.outputs) == ("vits_colono", Outputs(blocks=0, maps=2))
    with torch.no_grad():
        cls = network.load()(torch.from_numpy(expected["images"]).permute(0, 3, 1, 2).contiguous())
    # Values of about 1; the student's weights, a gelu without tanh or a missing transpose are off by 1e-3 and more.
    np.testing.assert_allclose(cls.numpy(), expected["cls"], rtol=0, atol=2e-5)


def test_images_go_in_squashed_and_from_0_to_255(checkpoint: Path) -> None:
    image = Image.new("RGB", (48, 24))
    image.paste((200, 100, 50), (24, 0, 48, 24))  # the right half
    seen = load(checkpoint).preprocessing(image)  # [3, 12, 12]
    assert seen.shape == (3, 12, 12)
    assert seen[:, 6, 11].tolist() == pytest.approx([200, 100, 50], abs=1e-3)
    assert seen[:, 6, 0].tolist() == [0, 0, 0]  # a center crop would have no black left of the middle but this


def test_what_is_no_endossl_checkpoint(checkpoint: Path, tmp_path: Path) -> None:
    arrays = read_flax_teacher(checkpoint)
    del arrays["encoderblock_1/MlpBlock_0/Dense_1/bias"]
    with pytest.raises(UserError, match=r"x: the array 'encoderblock_1/MlpBlock_0/Dense_1/bias' is missing"):
        endossl_from(arrays, "x")
    arrays = read_flax_teacher(checkpoint)
    arrays["encoder_norm/scale"] = arrays["encoder_norm/scale"][:-1]
    with pytest.raises(UserError, match=r"don't make up a vision transformer \(.*norm.weight"):
        endossl_from(arrays, "x")
    (tmp_path / "half").write_bytes(checkpoint.read_bytes()[:5000])
    with pytest.raises(UserError, match=r"half: it is no Flax checkpoint"):
        load(tmp_path / "half")
    (tmp_path / "other").write_bytes(_packed({"params": {"a": 1}}))
    with pytest.raises(UserError, match=r"other: it has no entry 'teacher_weights'"):
        load(tmp_path / "other")
    (tmp_path / "saved_model_inference").mkdir()
    (tmp_path / "saved_model_inference" / "saved_model.pb").write_bytes(b"")
    with pytest.raises(UserError, match="is a TensorFlow SavedModel; name the Flax file"):
        load(tmp_path / "saved_model_inference")
    with pytest.raises(UserError, match="does not exist"):
        load(tmp_path / "nowhere")


def _packed(content: Any) -> bytes:
    packed = msgpack.packb(content)
    assert isinstance(packed, bytes)
    return packed
