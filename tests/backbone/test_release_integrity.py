"""A release that was damaged or changed is refused by whatever loads it, and `verify` says which part is to blame."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fork_server
import pytest
import torch
from backbone_cases import random_model, save_checkpoint
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from panendofm.backbone import load_backbone, vit_config
from panendofm.backbone.command_config import ExportConfig
from panendofm.backbone.networks import find_network
from panendofm.backbone.release import export_release, verify_release
from panendofm.records.documents import as_document
from panendofm.records.release import ReleaseFolder
from panendofm.records.shards import Certificate, GuardedSet
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json, write_checksums, write_json

FORMATS = ("hub", "timm", "transformers")
CERTIFICATE = as_document(Certificate([GuardedSet("kvasir-dataset-v2", 8)], frames_checked=100))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    save_checkpoint(random_model(vit_config("vit_test", image_px=224)), folder / "step_0000007", 7, CERTIFICATE)
    export_release(folder / "step_0000007", ExportConfig(str(folder / "endo"), formats=list(FORMATS)))
    return folder / "endo"


@pytest.fixture
def release(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "endo"))


def list_anew(release: Path) -> None:
    """What a careful forger does: make SHA256SUMS fit."""
    files = [p.relative_to(release).as_posix() for p in release.rglob("*") if p.is_file() and p.name != "SHA256SUMS"]
    write_checksums(release, files)


def edit(release: Path, change: Callable[[dict[str, Any]], object]) -> None:
    values = read_json(release / "release.json")
    change(values)
    write_json(release / "release.json", values)
    list_anew(release)


def edit_weights(release: Path, kind: str, change: Callable[[dict[str, torch.Tensor], dict[str, Any]], object]) -> None:
    """Change tensors and our part of the header, as somebody does who knows the format."""
    file = ReleaseFolder(release).weights(kind)
    tensors = load_file(file)
    with safe_open(file, framework="pt") as opened:
        header = json.loads(opened.metadata()["panendofm"])
    change(tensors, header)
    save_file(tensors, file, {"format": "pt", "panendofm": json.dumps(header)})
    list_anew(release)


def other_value(tensors: dict[str, torch.Tensor], header: dict[str, Any]) -> None:
    tensors[next(name for name in tensors if name.endswith("norm1.bias"))][0] += 0.001


def not_a_number(tensors: dict[str, torch.Tensor], header: dict[str, Any]) -> None:
    tensors["norm.bias"][3] = torch.nan


def forge_certificate(values: dict[str, Any]) -> None:
    values["certificate"]["guarded_sets"][0]["name"] = "everything"


def forge_certificate_and_its_checksum(values: dict[str, Any]) -> None:
    forge_certificate(values)
    text = json.dumps(values["certificate"], sort_keys=True).encode()
    values["certificate_sha256"] = hashlib.sha256(text).hexdigest()


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no checksums": (lambda r: (r / "SHA256SUMS").unlink(), "has no SHA256SUMS"),
    "other weights": (lambda r: edit_weights(r, "hub", other_value), "not those that it was written with"),
    "weights not finite": (lambda r: edit_weights(r, "hub", not_a_number), "'norm.bias' holds values that are not fin"),
    "other heads": (lambda r: edit(r, lambda v: v["vit"].update(heads=2)), "do not say the same of vit"),
    "other heads in the header": (
        lambda r: edit_weights(r, "hub", lambda t, h: h["vit"].update(heads=2)),
        "do not say the same of vit",
    ),
    "other pre-processing": (
        lambda r: edit(r, lambda v: v["preprocessing"].update(mean=[0.5, 0.5, 0.5])),
        "do not say the same of preprocessing",
    ),
    "weights elsewhere": (
        lambda r: edit(r, lambda v: v["weights"].update(hub="../other/model.safetensors")),
        "said to lie in '../other/model.safetensors', where none belong",
    ),
    "an unlisted description": (
        lambda r: write_json(r / "release.json", {**read_json(r / "release.json"), "name": "theirs"}),
        "release.json was changed",
    ),
    "forged certificate": (lambda r: edit(r, forge_certificate), "the leakage certificate in it was changed"),
    "well forged certificate": (
        lambda r: edit(r, forge_certificate_and_its_checksum),
        "do not say the same of the certificate",
    ),
    "a certificate removed": (
        lambda r: edit(r, lambda v: v.update(certificate=None, certificate_sha256=None)),
        "do not say the same of the certificate",
    ),
    "no header": (
        lambda r: (
            save_file(load_file(r / "hub/model.safetensors"), r / "hub/model.safetensors"),
            list_anew(r),
        ),
        "do not say the same of vit",
    ),
    "no 'weights'": (lambda r: edit(r, lambda v: v.pop("weights")), "'weights': Field required"),
    "no 'vit'": (lambda r: edit(r, lambda v: v.pop("vit")), "'vit': Field required"),
    "an older format": (lambda r: edit(r, lambda v: v.update(format=1)), "'format'"),
    "checksums of outside": (
        lambda r: (r / "SHA256SUMS").write_text("0" * 64 + "  ../a\n"),
        "twice, outside its folder",
    ),
    "checksums not UTF-8": (lambda r: (r / "SHA256SUMS").write_bytes(b"\xff\xfe"), "not UTF-8 text"),
}


def test_a_whole_release_is_said_to_be_whole(release: Path) -> None:
    (release / "image.jpg").write_bytes(b"mine")
    findings = verify_release(release)
    assert not any(finding.fault for finding in findings)
    told = {finding.part: finding.state for finding in findings}
    files = {p.relative_to(release).as_posix() for p in release.rglob("*") if p.is_file() and p.name != "SHA256SUMS"}
    assert {name for name, state in told.items() if state == "intact"} == files - {"image.jpg"}
    assert told["image.jpg"] == "not part of the release" and told["signature"] == "none"
    assert told["certificate"].startswith("intact, bound to 3 files")
    assert all(told[f"weights of {kind}"].startswith("intact, finite, vit_") for kind in FORMATS)


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_release_is_refused(release: Path, change: str) -> None:
    make, message = CHANGES[change]
    make(release)
    for load in (load_backbone, lambda path: find_network(str(path))):
        with pytest.raises(UserError, match=message):
            load(release)
    with pytest.raises(UserError, match=r"is not intact|cannot"):
        verify_release(release)


@pytest.mark.parametrize(
    ("kind", "part"),
    [("hub", "hub/model.safetensors"), ("timm", "model.safetensors"), ("transformers", "transformers")],
)
def test_changed_weights_are_refused_also_when_they_are_named_themselves(release: Path, kind: str, part: str) -> None:
    edit_weights(release, kind, other_value)
    with pytest.raises(UserError, match="not those that it was written with"):
        load_backbone(release / part)
    with pytest.raises(UserError, match=f"weights of {kind} can't be used"):
        verify_release(release)


def test_a_release_of_the_earlier_layout_is_read_and_verified(release: Path) -> None:
    """Format 2: timm's files in a folder of their own, and nothing for loaders in the release's own folder."""
    weights = load_backbone(release, release_format="timm").weights_sha256
    (release / "timm").mkdir()
    (release / "model.safetensors").rename(release / "timm" / "model.safetensors")
    (release / "config.json").rename(release / "timm" / "config.json")
    (release / "preprocessor_config.json").unlink()
    edit(release, lambda values: (values.update(format=2), values["weights"].update(timm="timm/model.safetensors")))
    assert load_backbone(release, release_format="timm").weights_sha256 == weights
    verify_release(release)
    (release / "timm" / "config.json").unlink()
    with pytest.raises(UserError, match=r"timm/config\.json is missing"):
        verify_release(release)


def test_verify_finds_one_flipped_byte_in_any_file(release: Path) -> None:
    for file in sorted(p for p in release.rglob("*") if p.is_file() and p.name != "SHA256SUMS"):
        before = file.read_bytes()
        place = len(before) // 2
        file.write_bytes(before[:place] + bytes([before[place] ^ 1]) + before[place + 1 :])
        with pytest.raises(UserError, match=f"{file.relative_to(release).as_posix()} was changed"):
            verify_release(release)
        file.write_bytes(before)
    (release / "README.md").unlink()
    with pytest.raises(UserError, match=r"README\.md is missing"):
        verify_release(release)


def test_verify_on_the_command_line(release: Path) -> None:
    def verify() -> subprocess.CompletedProcess[str]:
        return fork_server.run_module("panendofm.backbone", "verify", str(release))

    assert verify().returncode == 0
    (release / "hub/model.safetensors").write_bytes(b"")
    ended = verify()
    assert ended.returncode == 2 and "hub/model.safetensors    " in ended.stdout
    assert ended.stderr.count("\n") == 1 and "is not intact: hub/model.safetensors was changed" in ended.stderr


def test_other_networks_that_are_not_finite_are_refused(network_words: dict[str, str], tmp_path: Path) -> None:
    content = torch.load(network_words["endofm"].removeprefix("endofm:"), weights_only=True)
    content["teacher"]["backbone.norm.bias"][0] = torch.inf
    torch.save(content, tmp_path / "bad.pth")
    with pytest.raises(UserError, match="not finite"):
        find_network(f"endofm:{tmp_path / 'bad.pth'}")


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="signatures are made by ssh-keygen")
def test_signatures(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    signers = tmp_path / "allowed_signers"
    signers.write_text("lab@example.org " + (tmp_path / "ours.pub").read_text())
    torch.save(random_model(vit_config("vit_test")).state_dict(), tmp_path / "weights.pth")
    for name in ("ours", "theirs"):
        release = tmp_path / f"release-{name}"
        export_release(tmp_path / "weights.pth", ExportConfig(str(release), formats=["hub"], sign=str(tmp_path / name)))
        if name == "ours":
            assert verify_release(release, signers)[-1].state == "good, by lab@example.org"
            (release / "README.md").write_text("changed")
            write_checksums(release, ["README.md", "hub/model.safetensors", "release.json"])
        with pytest.raises(UserError, match=r"signature of a signer in .* is missing"):
            verify_release(release, signers)
        (release / "SHA256SUMS.sig").unlink()
        with pytest.raises(UserError, match=r"signature of a signer in .* is missing"):
            verify_release(release, signers)
