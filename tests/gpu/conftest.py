"""The device of each test: the GPU, or the CPU, on which the same code shows that the tests themselves work."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "pretrain"):
    sys.path.insert(0, str(folder))


@pytest.fixture(params=[pytest.param("cuda", marks=pytest.mark.gpu), "cpu"])
def device(request: pytest.FixtureRequest) -> torch.device:
    """Of tests that are quick on both."""
    return _device(request.param)


@pytest.fixture(params=[pytest.param("cuda", marks=pytest.mark.gpu), pytest.param("cpu", marks=pytest.mark.slow)])
def training_device(request: pytest.FixtureRequest) -> torch.device:
    """Of tests that train: what they show on the CPU other tests show, too, so that there they are slow ones."""
    return _device(request.param)


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    return torch.device(name)
