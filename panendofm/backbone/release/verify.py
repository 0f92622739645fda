"""`verify`: what of a release is intact."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from panendofm.backbone.release.signature import signer_of
from panendofm.backbone.weights.load import load_backbone
from panendofm.records.release import ReleaseFolder, ReleaseInfo, is_graph
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError

INTACT = "intact"


@dataclass(frozen=True)
class Finding:
    """One line of the table. `fault` continues the part's name to a clause: «was changed»."""

    part: str
    state: str
    fault: str | None = None


def verify_release(path: Path | str, signers: Path | str | None = None) -> list[Finding]:
    """Print what is intact; raise a `UserError` when anything is not."""
    folder = ReleaseFolder(Path(path))
    if not folder.path.is_dir():
        raise UserError(f"cannot verify {path}: it is no folder; name a release.")
    if not folder.is_release():
        raise UserError(f"cannot verify {path}: it has no {folder.info.name}, so it is no release; check the path.")
    findings = [*_files(folder), *_contents(folder), *_signature(folder, signers)]
    width = max(len(finding.part) for finding in findings)
    say("\n".join(f"{finding.part.ljust(width)}  {finding.fault or finding.state}" for finding in findings))
    faults = [finding for finding in findings if finding.fault is not None]
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise UserError(
            f"the release {path} is not intact: {faults[0].part} {faults[0].fault}{more}; get the release again."
        )
    return findings


def _files(folder: ReleaseFolder) -> list[Finding]:
    listed = folder.checksums.name
    try:
        checksums = folder.read_checksums()
    except UserError as error:
        return [Finding(listed, "", f"can't be used: {_clause(error)}")]
    findings = [Finding(name, INTACT, folder.fault_of(name, checksums)) for name in sorted(checksums)]
    own = {folder.checksums, folder.signature}
    there = sorted(file for file in folder.path.rglob("*") if file.is_file() and file not in own)
    names = [file.relative_to(folder.path).as_posix() for file in there]
    # Somebody may keep an image there to try the release with.
    expected = _expected(folder)
    findings += [Finding(name, "not part of the release") for name in names if name not in {*checksums, *expected}]
    findings += [Finding(name, "", f"is not listed in {listed}") for name in sorted(expected - set(checksums))]
    return findings


def _expected(folder: ReleaseFolder) -> set[str]:
    try:
        return folder.expected_files(folder.read().weights)
    except UserError:  # why it can't be read stands in another line
        return folder.expected_files(())


def _contents(folder: ReleaseFolder) -> list[Finding]:
    """Whether the parts fit together, which the checksums of files alone do not tell."""
    try:
        info = folder.read()
    except UserError as error:
        return [Finding("description", "", f"can't be used: {_clause(error)}")]
    formats = [kind for kind in info.weights if not is_graph(kind)]
    findings = [_weights(folder, info, kind) for kind in formats]
    if info.certificate is None:
        return [*findings, Finding("certificate", "none: leakage into evaluation sets is not known")]
    return [*findings, Finding("certificate", f"{INTACT}, bound to {len(formats)} files of weights")]


def _weights(folder: ReleaseFolder, info: ReleaseInfo, kind: str) -> Finding:
    part = f"weights of {kind}"
    try:
        loaded = load_backbone(folder.path, release_format=kind)
    except UserError as error:
        return Finding(part, "", f"can't be used: {_clause(error)}")
    if kind != "timm" and loaded.weights_sha256 != info.weights_sha256:
        return Finding(part, "", f"are not those that {folder.info.name} names")
    return Finding(part, f"{INTACT}, finite, {loaded.architecture}, {loaded.weights_sha256[:16]}…")


def _signature(folder: ReleaseFolder, signers: Path | str | None) -> list[Finding]:
    if signers is None:
        there = "not checked: name those whom you trust by --signers FILE"
        return [Finding("signature", there if folder.signature.is_file() else "none")]
    signer = signer_of(folder, Path(signers))
    return [Finding("signature", f"good, by {signer}", None if signer else f"of a signer in {signers} is missing")]


def _clause(error: UserError) -> str:
    return str(error).rstrip(".")
