"""Folders and files of others: no code of theirs runs, and no weight is left to chance."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from panendofm.backbone.networks import find_network
from panendofm.backbone.networks.endofm import endofm_from
from panendofm.backbone.networks.endossl import endossl_from, read_flax_teacher
from panendofm.backbone.weights.weight_files import read_tensors
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from panendofm.vqa.client.config import RunConfig

Change = Callable[[dict[str, Tensor]], None]
CANARY = """
from pathlib import Path
Path({place!r}).write_text("I ran")
from transformers import ViTConfig, ViTModel
class CanaryConfig(ViTConfig):
    model_type = "no-such-type"
class CanaryModel(ViTModel):
    config_class = CanaryConfig
"""


@pytest.fixture
def tiny(network_words: dict[str, str], tmp_path: Path) -> Path:
    return Path(shutil.copytree(network_words["tiny"].partition(":")[2], tmp_path / "tiny"))


@pytest.mark.parametrize("model_type", ["no-such-type", "vit"])
def test_python_of_a_folder_never_runs(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_type: str
) -> None:
    ran = tmp_path / "ran"
    (tiny / "canary.py").write_text(CANARY.format(place=str(ran)), encoding="utf-8")
    config = json.loads((tiny / "config.json").read_text(encoding="utf-8"))
    code = {"AutoConfig": "canary.CanaryConfig", "AutoModel": "canary.CanaryModel"}
    code["AutoModelForImageTextToText"] = "canary.CanaryModel"
    config |= {"model_type": model_type, "auto_map": code}
    (tiny / "config.json").write_text(json.dumps(config), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 100))  # yes |
    if model_type != "vit":
        with pytest.raises(UserError, match="code of its own folder, which is not run"):
            find_network(f"transformers:{tiny}").load()
    else:
        find_network(f"transformers:{tiny}").load()
    from panendofm.vqa.client.local import LocalModel

    asked = load_config(RunConfig, None, [f"api.local={tiny}", f"out={tmp_path / 'out'}"])
    with pytest.raises(UserError, match=r"api\.local"):
        LocalModel(asked.api)
    assert not ran.exists()


def test_pickled_folders_are_refused(tiny: Path) -> None:
    torch.save(load_file(tiny / "model.safetensors"), tiny / "pytorch_model.bin")
    (tiny / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"pickled weights \(\.bin\)"):
        find_network(f"transformers:{tiny}").load()


def _rename(tensors: dict[str, Tensor]) -> None:
    for name in [name for name in tensors if "layer.1" in name or "layers.1" in name]:
        tensors[f"renamed.{name}"] = tensors.pop(name)


def _drop_block(tensors: dict[str, Tensor]) -> None:
    for name in [name for name in tensors if ".1." in name]:
        del tensors[name]


def _reshape(tensors: dict[str, Tensor]) -> None:
    name = next(name for name in tensors if name.endswith("position_embeddings"))
    tensors[name] = torch.zeros(1, 3, 32)


def _add_block(tensors: dict[str, Tensor]) -> None:
    for name in [name for name in tensors if ".1." in name]:
        tensors[name.replace(".1.", ".2.")] = tensors[name].clone()


@pytest.mark.parametrize("change", [_rename, _drop_block, _reshape, _add_block])
def test_a_transformers_folder_must_fit(tiny: Path, change: Change) -> None:
    tensors = load_file(tiny / "model.safetensors")
    before = {name: (tensor.shape, tensor.sum()) for name, tensor in tensors.items()}
    change(tensors)
    assert {name: (tensor.shape, tensor.sum()) for name, tensor in tensors.items()} != before
    save_file(tensors, tiny / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=r"does not fit its network|can't load it"):
        find_network(f"transformers:{tiny}").load()


def test_a_classifier_beside_an_encoder_stays_behind(tiny: Path) -> None:
    tensors = load_file(tiny / "model.safetensors")
    tensors["classifier.weight"] = torch.zeros(5, 32)
    save_file(tensors, tiny / "model.safetensors", {"format": "pt"})
    find_network(f"transformers:{tiny}").load()


def test_a_timm_file_must_fit(network_words: dict[str, str], tmp_path: Path) -> None:
    tensors = load_file(network_words["resnet10t"].partition("@")[2])
    for change in ("missing", "unexpected"):
        changed = dict(tensors)
        if change == "missing":
            del changed["layer1.0.conv1.weight"]
        else:
            changed["layer1.1.conv1.weight"] = tensors["layer1.0.conv1.weight"].clone()
        save_file(changed, tmp_path / "changed.safetensors")
        with pytest.raises(UserError, match=r"does not fit its network: 1 tensors are .* \(layer1\..\.conv1\.weight"):
            find_network(f"timm:resnet10t@{tmp_path / 'changed.safetensors'}").load()


def test_endofm_and_endossl_files_must_fit(network_words: dict[str, str]) -> None:
    tensors, _ = read_tensors(Path(network_words["endofm"].partition(":")[2]), "teacher")
    endofm_from({**tensors, "head.weight": torch.zeros(2)}, "x")
    with pytest.raises(UserError, match=r"too many \(blocks\.0\.gate"):
        endofm_from({**tensors, "blocks.0.gate": torch.zeros(2)}, "x")
    arrays = read_flax_teacher(Path(network_words["vits_colono"].partition(":")[2]))
    array = arrays["encoder_norm/scale"]
    with pytest.raises(UserError, match=r"too many \(encoderblock_0/gate"):
        endossl_from({**arrays, "encoderblock_0/gate": array}, "x")
    with pytest.raises(UserError, match="there is a block 999999, but not all"):
        endossl_from({**arrays, "encoderblock_999999/gate": array}, "x")
