"""Versions and drivers: what is installed, and whether torch sees the GPUs that are there."""

from __future__ import annotations

import importlib.metadata as metadata
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator

import torch
from packaging.requirements import Requirement

from launch.doctor.rows import Row, judged
from panendofm.runtime.machine import processor_name

DISTRIBUTION = "panendofm"
NULL_DEVICE = "null CUDA device"
_FAISS = re.compile(r"faiss[-_](cpu|gpu.*)", re.IGNORECASE)


def check_versions(device: torch.device, wants_gpu: bool) -> Iterator[Row]:
    yield _packages()
    yield _one_faiss()
    yield _device(device, wants_gpu)


def _packages() -> Row:
    """Against what the installed package itself asks for."""
    try:
        wanted = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return Row("packages", "warn", f"{DISTRIBUTION} is not installed here", "install it with 'pip install .'")
    versions, wrong = {}, []
    for requirement in map(Requirement, wanted):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            # The FAISS of the GPU has the same module under another name.
            if not (_FAISS.fullmatch(requirement.name) and _installed_faiss()):
                wrong.append(f"{requirement.name} is missing")
            continue
        versions[requirement.name] = version
        if not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement.name} is {version}, not {requirement.specifier}")
    found = f"Python {platform.python_version()}, torch {torch.__version__}, {len(versions)} packages as asked for"
    remedy = "install what is wrong: 'pip install -c requirements.lock .'"
    versions |= {"python": platform.python_version(), "torch": torch.__version__}
    return judged("packages", not wrong, "; ".join(wrong) or found, remedy, versions=versions)


def _installed_faiss() -> list[str]:
    names = {(item.metadata["Name"] or "").lower() for item in metadata.distributions()}
    return sorted(name for name in names if _FAISS.fullmatch(name))


def _one_faiss() -> Row:
    """Two of them write into one folder: which one is imported then is a matter of luck."""
    installed = _installed_faiss()
    remedy = f"remove all ('pip uninstall {' '.join(installed)}') and install one"
    return judged("one FAISS", len(installed) == 1, " and ".join(installed) or "none", remedy)


def _device(device: torch.device, wants_gpu: bool) -> Row:
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found = (
            f"{properties.name}, {properties.total_memory / 1e9:.0f} GB, driver {_driver() or 'unknown'}, "
            f"CUDA {torch.version.cuda}, NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}"  # type: ignore[no-untyped-call]
        )
        if properties.name.startswith(NULL_DEVICE):
            found = "the null CUDA runtime of 'launch rehearse': a fake GPU, which computes nothing"
            return Row("device", "fail", found, "take LD_PRELOAD out of the environment")
        remedy = "train with objective.compute_type=float32 and sharding.param_type=float32"
        return judged("device", torch.cuda.is_bf16_supported(including_emulation=False), found, remedy, "warn")
    if torch.cuda.is_available():
        return judged("device", not wants_gpu, "the GPU is not used: run.device=cpu", "set run.device=auto")
    driver = _driver()
    if driver is not None:
        built = f"is built for CUDA {torch.version.cuda}" if torch.version.cuda else "is a CPU build"
        remedy = "install a torch whose CUDA the driver knows (nvidia-smi names the newest), or update the driver"
        return Row("device", "fail", f"there is a GPU (driver {driver}), but torch {built} and sees none", remedy)
    given = os.environ.get("SLURM_GPUS_ON_NODE")
    if given is not None:
        found = (
            f"Slurm gave this job {given} GPUs of the node, but there is no driver: they are fake, or it is not loaded"
        )
        remedy = "ask who runs the cluster what gres.conf names there (nvidia-smi on the node), or exclude the node"
        return Row("device", "fail" if wants_gpu else "warn", found, remedy)
    found = f"no GPU: {processor_name()}, {torch.get_num_threads()} threads"
    remedy = "ask for GPUs in the cluster file (gpus_per_node), and check that the job's shell sees them: nvidia-smi"
    return judged("device", not wants_gpu, found, remedy)


def _driver() -> str | None:
    """The NVIDIA driver's version; None where there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    words = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.split("\n")[0].strip() or None if done.returncode == 0 else None
