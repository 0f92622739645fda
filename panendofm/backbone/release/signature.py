"""Signatures of releases by ssh keys, made and checked by ssh-keygen. Nothing is signed unless it is asked for.

A signature covers SHA256SUMS, and so every file that is listed there.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from panendofm.records.release import ReleaseFolder
from panendofm.runtime.errors import UserError

# Keeps a signature that was made for something else from counting here.
NAMESPACE = "panendofm-release"


def sign(folder: ReleaseFolder, key: Path) -> None:
    """Write the signature of the checksums. A key with a passphrase must be in the agent."""
    if not key.is_file():
        raise UserError(f"sign={key}: the key does not exist; check the path.")
    made = _ssh_keygen("sign", "-f", str(key), "-n", NAMESPACE, str(folder.checksums))
    if made.returncode != 0 or not folder.signature.is_file():
        raise UserError(f"sign={key}: ssh-keygen could not sign ({_last_line(made.stderr)}).")


def signer_of(folder: ReleaseFolder, signers: Path) -> str | None:
    """Who of the allowed signers has signed the release; None when nobody has, or for something else."""
    if not signers.is_file():
        raise UserError(f"--signers {signers}: the file does not exist; check the path.")
    if not folder.signature.is_file():
        return None
    signature = str(folder.signature)
    named = _ssh_keygen("find-principals", "-s", signature, "-f", str(signers))
    who = named.stdout.decode(errors="replace").splitlines()
    if named.returncode != 0 or not who:
        return None
    checked = _ssh_keygen(
        "verify",
        "-f",
        str(signers),
        "-I",
        who[0],
        "-n",
        NAMESPACE,
        "-s",
        signature,
        given=folder.checksums.read_bytes(),
    )
    return who[0] if checked.returncode == 0 else None


def _ssh_keygen(action: str, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["ssh-keygen", "-Y", action, *words], input=given, capture_output=True, timeout=60)
    except FileNotFoundError as error:
        raise UserError(
            "ssh-keygen was not found; install OpenSSH (8.2 or newer), or do without signatures."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise UserError(f"ssh-keygen -Y {action} did not end; put a key with a passphrase into ssh-agent.") from error


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it gave no reason"
