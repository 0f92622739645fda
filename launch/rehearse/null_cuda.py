"""The CUDA runtime without GPUs: built with the machine's compiler, and loaded before torch."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_directory, make_directory, user_cache

SOURCE = Path(__file__).resolve().parent / "null_cuda.c"
CUDA_MAJOR = "13"
_DEVICES = "NULL_CUDA_DEVICES"
_LIBRARY = "null_cuda.so"
# nvcc's header, which the wheels of the runtime lack: of its words a C compiler needs these.
_HOST_DEFINES = """\
#define __device_builtin__
#define __cudart_builtin__
#define CUDARTAPI
#define CUDART_CB
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
"""
_HOW_TO_GET_ONE = (
    "python3 -m venv cuda && cuda/bin/pip install torch && grep -vE '^(#|torch)' requirements.lock > rest.txt && "
    "cuda/bin/pip install --no-deps -r rest.txt . (6 GB; no GPU is needed)"
)


def is_loaded() -> bool:
    return _DEVICES in os.environ


def restart_with_null_cuda(devices: int) -> NoReturn:
    """This very command again, on a machine that seems to have so many GPUs."""
    library = build(_torch_folder())
    environment = os.environ | {
        "LD_PRELOAD": " ".join([str(library), os.environ.get("LD_PRELOAD", "")]).strip(),
        _DEVICES: str(devices),
        "OMP_NUM_THREADS": "1",  # so that the host's time is that of one core
    }
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, sys.orig_argv, environment)


def _torch_folder() -> Path:
    """Of a torch that is built for CUDA. Not imported: it must find the null runtime when it is."""
    found = importlib.util.find_spec("torch")
    assert found is not None and found.origin is not None
    folder = Path(found.origin).parent
    version = re.search(
        r"^cuda(?:: [^=]+)? = '(\d+)", (folder / "version.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    if version is None:
        raise UserError(
            "this torch is a CPU build, and a rehearsal on fake GPUs needs one for CUDA; get it in an environment of "
            f"its own: {_HOW_TO_GET_ONE}. --device cpu rehearses everything but devices with this torch."
        )
    if version[1] != CUDA_MAJOR:
        raise UserError(
            f"this torch is built for CUDA {version[1]}, and the null runtime is CUDA {CUDA_MAJOR}'s; update torch."
        )
    return folder


def build(torch_folder: Path) -> Path:
    """The library, compiled once per version of its source and of torch's headers."""
    headers = sorted(torch_folder.parent.glob("nvidia/*/include/driver_types.h"))
    if not headers:
        raise UserError(
            "torch's CUDA headers (the package nvidia-cuda-runtime) are not installed; install torch by pip."
        )
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise UserError("a rehearsal needs a C compiler (cc, or the one that CC names); install gcc.")
    fingerprint = hashlib.sha256(SOURCE.read_bytes() + headers[-1].read_bytes()).hexdigest()[:16]
    folder = user_cache("launch") / f"null-cuda-{fingerprint}"
    if not (folder / _LIBRARY).is_file():
        with atomic_directory(folder) as new:
            make_directory(new / "crt")
            (new / "crt" / "host_defines.h").write_text(_HOST_DEFINES, encoding="utf-8")
            includes = [f"-I{new}", f"-I{headers[-1].parent}"]
            # Its name is the driver's: who asks for that one finds it loaded already.
            words = [compiler, "-O1", "-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", *includes]
            done = subprocess.run(
                [*words, "-o", str(new / _LIBRARY), str(SOURCE), "-lpthread"],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise UserError(f"{compiler} could not build {SOURCE.name}: {done.stderr.strip().splitlines()[0]}.")
    return folder / _LIBRARY
