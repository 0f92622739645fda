"""Weights of every kind go in, and what doesn't fit is refused with one sentence."""

from __future__ import annotations

import json
import os
import pickle
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from backbone_cases import largest_difference, random_model, save_checkpoint
from safetensors.torch import save_file

from panendofm.backbone import ViTConfig, load_backbone, vit_config
from panendofm.backbone.weights.foreign import to_timm, to_transformers, transformers_config
from panendofm.records.documents import as_document
from panendofm.records.shards import Certificate, GuardedSet
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_json

CONFIGS = {
    "mlp": vit_config("vit_test"),
    "registers": vit_config("vit_test_patch14_reg4"),
    "swiglu": vit_config("vit_test", ffn="swiglu"),
    "swiglu_registers": vit_config("vit_test_patch14_reg4", ffn="swiglu"),
    "patch16": vit_config("vit_test_patch16"),
}


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
@pytest.mark.parametrize("kind", ["official", "timm", "transformers"])
@pytest.mark.parametrize("case", CONFIGS)
def test_files_of_every_format(tmp_path: Path, case: str, kind: str, suffix: str) -> None:
    config = CONFIGS[case]
    model = random_model(config)
    convert = {"official": dict, "timm": to_timm, "transformers": to_transformers}[kind]
    path = tmp_path / f"weights.{suffix}"
    state = {name: tensor.contiguous() for name, tensor in convert(model.state_dict()).items()}
    save_file(state, path) if suffix == "safetensors" else torch.save(state, path)

    loaded = load_backbone(path)
    assert loaded.source == kind
    assert loaded.model.config == config
    assert not loaded.model.training
    side = 4 * config.patch_px
    assert largest_difference(loaded.model, model, side) < 1e-5
    assert largest_difference(loaded.model, model, side + 2 * config.patch_px) < 1e-5  # interpolated positions
    if kind != "timm":  # timm keeps no mask token, and merges the position of cls
        for name, tensor in model.state_dict().items():
            assert torch.equal(loaded.model.state_dict()[name], tensor), name
    else:
        assert not loaded.model.mask_token.any()


@pytest.mark.parametrize(
    ("architecture", "tensors", "parameters"),
    [("vit_large_patch14", 343, 304_368_640), ("vit_large_patch14_reg4", 344, 304_372_736)],
)
def test_the_full_official_key_set_loads(tmp_path: Path, architecture: str, tensors: int, parameters: int) -> None:
    """All names and shapes of the ViT-L files, without their 1.2 GB: every tensor is one repeated value."""
    config = vit_config(architecture)
    state = {name: torch.zeros(()).expand(shape) for name, shape in _shapes(config).items()}
    assert len(state) == tensors and state["pos_embed"].shape == (1, 1370, 1024)
    torch.save(state, tmp_path / "official_pretrain.pth")
    loaded = load_backbone(tmp_path / "official_pretrain.pth")
    assert loaded.architecture == architecture and loaded.source == "official"
    assert loaded.model.config == config
    assert sum(p.numel() for p in loaded.model.parameters()) == parameters


@pytest.mark.parametrize(
    ("architecture", "tensors"),
    [("vit_small_patch14", 175), ("vit_base_patch14", 175), ("vit_small_patch14_reg4", 176)],
)
def test_the_official_architectures_are_recognized(tmp_path: Path, architecture: str, tensors: int) -> None:
    state = {name: torch.zeros(()).expand(shape) for name, shape in _shapes(vit_config(architecture)).items()}
    assert len(state) == tensors
    torch.save(state, tmp_path / "file.pth")
    loaded = load_backbone(tmp_path / "file.pth")
    assert loaded.architecture == architecture
    assert loaded.model.config == vit_config(architecture)


def _shapes(config: ViTConfig) -> dict[str, torch.Size]:
    from panendofm.backbone import VisionTransformer

    with torch.device("meta"):
        return {name: tensor.shape for name, tensor in VisionTransformer(config).state_dict().items()}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda s: {"model": s},
        lambda s: {"state_dict": s, "epoch": 3},
        lambda s: {"teacher": s, "student": {k: v + 1 for k, v in s.items()}},
        lambda s: {"model": {f"module.{k}": v for k, v in s.items()}, "iteration": 4},
        lambda s: {"teacher": {f"backbone.{k}": v for k, v in s.items()} | {"dino_head.mlp.0.weight": torch.ones(2)}},
        lambda s: {
            "model": {f"teacher.backbone.{k}": v for k, v in s.items()}
            | {f"student.backbone.{k}": v + 1 for k, v in s.items()}
            | {"teacher.ibot_head.mlp.0.weight": torch.ones(2)}
        },
        lambda s: {f"blocks.{int(k.split('.')[1]) // 2}.{k[7:]}" if k.startswith("blocks") else k: s[k] for k in s},
    ],
    ids=["model", "state_dict", "teacher", "module", "teacher_with_heads", "teacher_and_student", "chunked"],
)
def test_wrappers_prefixes_and_chunks(tmp_path: Path, wrap: Any) -> None:
    model = random_model(vit_config("vit_test"))
    content = wrap(model.state_dict())
    torch.save(content, tmp_path / "wrapped.pth")
    assert largest_difference(load_backbone(tmp_path / "wrapped.pth").model, model) == 0.0


def test_the_chunked_case_is_chunked() -> None:
    """Guards the case above: the key rewriting there gives what the reference writes."""
    key = "blocks.2.mlp.fc1.weight"
    assert f"blocks.{int(key.split('.')[1]) // 2}.{key[7:]}" == "blocks.1.2.mlp.fc1.weight"


def test_the_student_is_loaded_on_demand(tmp_path: Path) -> None:
    model = random_model(vit_config("vit_test"))
    torch.save(
        {"teacher": model.state_dict(), "student": {k: v + 1 for k, v in model.state_dict().items()}}, tmp_path / "c"
    )
    student = load_backbone(tmp_path / "c", role="student").model
    torch.testing.assert_close(student.cls_token, model.cls_token + 1)


def test_names_that_transformers_has_in_memory(tmp_path: Path) -> None:
    """transformers 5 calls the tensors of a living model otherwise than those of its files."""
    model = random_model(vit_config("vit_test_patch14_reg4", ffn="swiglu"))
    renamed = {}
    for name, tensor in to_transformers(model.state_dict()).items():
        for new, old in (("q", "query"), ("k", "key"), ("v", "value")):
            name = name.replace(f"attention.attention.{old}", f"attention.{new}_proj")
        name = name.replace("attention.output.dense", "attention.o_proj").replace("weights_out", "down_proj")
        if "weights_in" in name:
            gate, up = tensor.chunk(2)
            renamed[name.replace("weights_in", "gate_proj")] = gate
            renamed[name.replace("weights_in", "up_proj")] = up
        else:
            renamed[name] = tensor
    torch.save(renamed, tmp_path / "memory.pth")
    assert largest_difference(load_backbone(tmp_path / "memory.pth").model, model) == 0.0


def test_half_precision_files_become_float32(tmp_path: Path) -> None:
    model = random_model(vit_config("vit_test"))
    save_file({k: v.half() for k, v in model.state_dict().items()}, tmp_path / "half.safetensors")
    loaded = load_backbone(tmp_path / "half.safetensors")
    assert {p.dtype for p in loaded.model.parameters()} == {torch.float32}


# ------------------------------------------------------------------------------------------------- run folders


def test_checkpoint_and_run_folders(tmp_path: Path) -> None:
    first, second = random_model(vit_config("vit_test"), 1), random_model(vit_config("vit_test"), 2)
    run = tmp_path / "runs" / "a"
    certificate = Certificate([GuardedSet("kvasir")], frames_checked=9)
    save_checkpoint(first, run / "checkpoints" / "step_0000010", 10, as_document(certificate))
    save_checkpoint(second, run / "checkpoints" / "step_0000020", 20)
    save_checkpoint(first, run / "checkpoints" / ".step_0000030.partial-1-ab", 30)  # half-written: never taken

    named = load_backbone(run / "checkpoints" / "step_0000010")
    assert named.source == "checkpoint" and named.origin.step == 10
    assert named.certificate == certificate
    assert named.origin.run == str(run.resolve())
    assert largest_difference(named.model, first) == 0.0
    student = load_backbone(run / "checkpoints" / "step_0000010", role="student").model
    assert torch.equal(student.norm.weight, first.norm.weight + 1)

    latest = load_backbone(run)
    assert latest.origin.step == 20 and latest.certificate is None
    (run / "best").symlink_to(Path("checkpoints") / "step_0000010")
    assert load_backbone(run).origin.step == 10
    through_link = load_backbone(run / "best")
    assert through_link.origin.step == 10 and through_link.origin.run == str(run.resolve())


def test_sizes_that_shapes_do_not_show_come_from_the_checkpoint(tmp_path: Path) -> None:
    config = vit_config("vit_test", heads=8, position_offset=0.0, drop_path=0.3)
    save_checkpoint(random_model(config), tmp_path / "step_1")
    assert load_backbone(tmp_path / "step_1").model.config == config
    with pytest.raises(UserError, match=r"was made with heads=8, but heads=4 is demanded"):
        load_backbone(tmp_path / "step_1", "vit_test")
    trained_further = replace(config, drop_path=0.0)
    assert load_backbone(tmp_path / "step_1", trained_further).model.config == trained_further


def test_damaged_checkpoints(tmp_path: Path) -> None:
    folder = save_checkpoint(random_model(vit_config("vit_test")), tmp_path / "step_1")
    shard = next(folder.glob("*.distcp"))
    content = shard.read_bytes()
    shard.write_bytes(content[: len(content) // 10])
    with pytest.raises(UserError, match=r"cannot read the checkpoint .*step_1: a file of it is missing or damaged"):
        load_backbone(folder)
    shard.unlink()
    with pytest.raises(UserError, match=r"cannot read the checkpoint .*step_1: a file of it is missing or damaged"):
        load_backbone(folder)
    metadata = (folder / ".metadata").read_bytes()
    (folder / ".metadata").write_bytes(metadata[: len(metadata) // 2])
    with pytest.raises(UserError, match=r"cannot read .*\.metadata: it is damaged"):
        load_backbone(folder)


def test_a_run_without_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / ".step_0000001.partial-1-ab").mkdir(parents=True)
    with pytest.raises(UserError, match="has no complete checkpoint yet"):
        load_backbone(tmp_path)


# ------------------------------------------------------------------------------------------------------ folders


def test_transformers_folder(tmp_path: Path) -> None:
    config = vit_config("vit_test", heads=8)
    model = random_model(config)
    save_file(to_transformers(model.state_dict()), tmp_path / "model.safetensors")
    write_json(tmp_path / "config.json", transformers_config(config))
    values = {
        "size": {"shortest_edge": 100},
        "crop_size": {"height": 98, "width": 98},
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.2, 0.2, 0.2],
        "resample": 2,
    }
    write_json(tmp_path / "preprocessor_config.json", values)
    loaded = load_backbone(tmp_path)
    assert loaded.model.config.heads == 8
    assert largest_difference(loaded.model, model) < 1e-6
    seen = loaded.preprocessing
    assert (seen.resize_px, seen.crop_px, seen.interpolation, seen.mean[0]) == (100, 98, "bilinear", 0.5)


# ------------------------------------------------------------------------------------------------- what is refused


def test_swiglu_weights_do_not_pass_for_mlp(tmp_path: Path) -> None:
    torch.save(random_model(vit_config("vit_test", ffn="swiglu")).state_dict(), tmp_path / "swiglu.pth")
    with pytest.raises(UserError) as caught:
        load_backbone(tmp_path / "swiglu.pth", "vit_test")
    text = str(caught.value)
    assert "does not fit vit_test" in text
    assert "12 missing (blocks.0.mlp.fc1.weight, blocks.0.mlp.fc1.bias, blocks.0.mlp.fc2.weight, …)" in text
    assert "12 unexpected (blocks.0.mlp.w12.weight" in text
    assert "the file's feed-forward layers are SwiGLU, the architecture's MLP" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("blocks.1.ls1.gamma"), r"1 missing \(blocks.1.ls1.gamma\)"),
        (lambda s: s.update({"head.weight": torch.ones(2)}), r"1 unexpected \(head.weight\)"),
        (lambda s: s.update({"norm.weight": torch.ones(5)}), r"norm.weight \(5,\) instead of \(32,\)"),
        (lambda s: s.update({"pos_embed": torch.ones(1, 16, 32)}), "15 patch positions, which is not a square"),
        (lambda s: s.pop("cls_token"), "no DINOv2 backbone"),
    ],
    ids=["missing", "unexpected", "shape", "positions", "foreign"],
)
def test_tensors_that_do_not_fit(tmp_path: Path, change: Any, message: str) -> None:
    state = random_model(vit_config("vit_test")).state_dict()
    change(state)
    torch.save(state, tmp_path / "wrong.pth")
    with pytest.raises(UserError, match=message) as caught:
        load_backbone(tmp_path / "wrong.pth")
    assert "wrong.pth" in str(caught.value)


@pytest.mark.parametrize("suffix", ["pth", "legacy", "safetensors"])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.99])
def test_truncated_files(tmp_path: Path, suffix: str, share: float) -> None:
    path = tmp_path / f"cut.{suffix}"
    state = random_model(vit_config("vit_test")).state_dict()
    if suffix == "safetensors":
        save_file(state, path)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=suffix == "pth")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(UserError, match=rf"cannot read .*cut\.{suffix}: it is .*damaged.* get") as caught:
        load_backbone(path)
    assert "\n" not in str(caught.value)


class Malicious:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("how", ["torch", "legacy", "pickle"])
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path: Path, how: str) -> None:
    mark, path = tmp_path / "mark", tmp_path / "evil.pth"
    content = {"model": random_model(vit_config("vit_test")).state_dict(), "extra": Malicious(mark)}
    if how == "pickle":
        path.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=how == "torch")
    with pytest.raises(UserError, match=r"refused to load .*evil\.pth: it holds Python objects") as caught:
        load_backbone(path)
    assert "\n" not in str(caught.value)
    assert not mark.exists()
    torch.load(path, weights_only=False) if how != "pickle" else pickle.loads(path.read_bytes())
    assert mark.exists(), "the file would have run code, so the test above means something"


def test_malicious_checkpoint_metadata_is_refused_and_not_run(tmp_path: Path) -> None:
    folder = save_checkpoint(random_model(vit_config("vit_test")), tmp_path / "step_1")
    (folder / ".metadata").write_bytes(pickle.dumps(Malicious(tmp_path / "mark")))
    with pytest.raises(UserError, match=r"refused to load .*\.metadata: it names (posix|os)\.system"):
        load_backbone(folder)
    assert not (tmp_path / "mark").exists()


def deep_state() -> dict[str, torch.Tensor]:
    """A name that claims fifty thousand blocks: building them would take minutes and gigabytes."""
    state = random_model(vit_config("vit_test")).state_dict()
    return {**state, "blocks.50000.norm1.weight": state["blocks.0.norm1.weight"]}


def not_finite_state() -> dict[str, torch.Tensor]:
    state = random_model(vit_config("vit_test")).state_dict()
    state["norm.bias"][0] = torch.inf
    return state


def test_no_depth_or_width_is_built_before_it_is_known_to_fit(tmp_path: Path) -> None:
    """What a checkpoint says of itself is not believed without limits, nor what its index says of its tensors."""
    folder = save_checkpoint(random_model(vit_config("vit_test")), tmp_path / "step_1")
    info = json.loads((folder / "checkpoint.json").read_text())
    for key, value in (("depth", 50000), ("width", 1 << 40), ("heads", 0), ("patch_px", "14"), ("depth", None)):
        wrong = {**info, "vit": {**info["vit"], key: value}}
        (folder / "checkpoint.json").write_text(json.dumps(wrong))
        with pytest.raises(UserError, match=f"'{key}'"):
            load_backbone(folder)
    (folder / "checkpoint.json").write_text(json.dumps(info))
    metadata = pickle.loads((folder / ".metadata").read_bytes())
    metadata.state_dict_metadata["teacher.backbone.norm.bias"].size = torch.Size([1 << 40])
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))
    with pytest.raises(UserError, match=r"'teacher\.backbone\.norm\.bias' is said to be larger than its files"):
        load_backbone(folder)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: None, "it does not exist; check the path"),
        (lambda p: p.mkdir(), "it is no run"),
        (lambda p: torch.save({"a": 1, "b": {}}, p), "no weights found in it \\(it holds 'a', 'b'\\)"),
        (lambda p: torch.save(torch.ones(3), p), "it holds a Tensor, not weights by name"),
        (lambda p: torch.save({"fc.weight": torch.ones(3)}, p), "no DINOv2 backbone .*'fc.weight'"),
        (lambda p: p.write_text("<html>not found</html>"), "not a file of weights"),
        (lambda p: torch.save({0: torch.ones(3), 1: torch.ones(3)}, p), "its tensors are numbered, not named"),
        (lambda p: p.symlink_to(p), "it does not exist|a link that leads to itself"),
        (lambda p: p.write_bytes(b"\x10\0\0\0\0\0\0\0{" + b"\xff" * 40), "it is damaged or incomplete"),
        (lambda p: p.write_bytes(struct.pack("<Q", 1 << 60) + b"{}"), "it is damaged or incomplete"),
        (lambda p: torch.save(deep_state(), p), "block 3 are missing, although there is a block 50000"),
        (lambda p: torch.save(not_finite_state(), p), "'norm.bias' holds values that are not finite"),
    ],
    ids=[
        *("absent", "empty_folder", "no_tensors", "tensor", "other_network", "html", "numbered", "linked_to_itself"),
        *("bad_header", "endless_header", "block_50000", "not_finite"),
    ],
)
def test_things_that_are_no_backbone(tmp_path: Path, make: Any, message: str) -> None:
    path = tmp_path / "thing"
    make(path)
    with pytest.raises(UserError, match=message) as caught:
        load_backbone(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


# --------------------------------------------------------------------------------------------------- checksums


def test_the_checksum_names_the_weights_not_the_file(tmp_path: Path) -> None:
    model = random_model(vit_config("vit_test"))
    torch.save(model.state_dict(), tmp_path / "a.pth")
    save_file(to_transformers(model.state_dict()), tmp_path / "b.safetensors")
    torch.save(random_model(vit_config("vit_test"), seed=1).state_dict(), tmp_path / "c.pth")
    save_checkpoint(model, tmp_path / "step_1")
    a, b, c, d = (load_backbone(tmp_path / n).weights_sha256 for n in ("a.pth", "b.safetensors", "c.pth", "step_1"))
    assert a == b == d
    assert a != c
    assert load_backbone(tmp_path / "a.pth", replace(model.config, heads=8)).weights_sha256 != a


@pytest.mark.parametrize(
    "content",
    [b"root:x:0:0:root:/root:/bin/bash\n", b"hello", b"q\x00", b"\xff\xd8\xff\xe0" + bytes(range(256)), b"}", b""],
)
def test_a_file_of_something_else_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.pth").write_bytes(content)
    with pytest.raises(UserError, match=r"x\.pth") as caught:
        load_backbone(tmp_path / "x.pth")
    assert "\n" not in str(caught.value)
