"""The forward pass of the ViT-L objective on CUDA tensors without content: no GPU needed, but a torch built for CUDA.

python3 -m venv cuda && cuda/bin/pip install torch numpy     # 5.4 GB
CUDA_TORCH_PYTHON=cuda/bin/python .venv/bin/python -m pytest -m slow tests/gpu/test_fake_cuda.py -s
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CONFIG = ROOT / "configs" / "pretrain" / "panendofm_vitl14.yaml"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter whose torch is built for CUDA."""
    interpreter = os.environ.get("CUDA_TORCH_PYTHON")
    if interpreter is None:
        pytest.skip("no torch that is built for CUDA: name an interpreter that has one in CUDA_TORCH_PYTHON")
    return interpreter


def forward(
    python: str, config: Path = CONFIG, fault: str = "none", where: str = "cpu"
) -> subprocess.CompletedProcess[str]:
    """Its own packages come first, then ours for all that it lacks."""
    code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    own = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    path = os.pathsep.join([str(ROOT), own, sysconfig.get_paths()["purelib"]])
    command = [
        python,
        str(HERE / "fake_cuda.py"),
        str(config),
        fault,
        "execution.attention=sdpa",
        f"augment.where={where}",
    ]
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)


@pytest.mark.parametrize("name", ["panendofm_vitl14", "panendofm_vitl14_reg4", "panendofm_vitl14_high_resolution"])
def test_the_whole_forward_stays_on_the_device(python: str, name: str) -> None:
    done = forward(python, CONFIG.with_name(f"{name}.yaml"))
    assert done.returncode == 0, done.stderr[-2000:]
    print(done.stdout)
    assert "+cu" in done.stdout and "vit_large" in done.stdout


def test_so_does_the_augmentation_in_batches(python: str) -> None:
    done = forward(python, where="gpu")
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_tensor_on_another_device_fails(python: str) -> None:
    done = forward(python, fault="mask in main memory")
    assert done.returncode != 0 and "found at least two devices, cpu and cuda:0" in done.stderr


def test_a_number_that_is_looked_at_fails(python: str) -> None:
    done = forward(python, fault="a loss is read")
    assert done.returncode != 0 and "DataDependentOutputException" in done.stderr
