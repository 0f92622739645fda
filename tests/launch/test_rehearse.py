"""`launch rehearse`: a healthy training passes; each planted fault is named with the file and line of its planting.

On the CPU build tensors without content stand in for a GPU's, which shows all but wrong devices. With a torch that is
built for CUDA (CUDA_TORCH_PYTHON names its interpreter; no GPU is needed) everything is shown:

    CUDA_TORCH_PYTHON=cuda/bin/python .venv/bin/python -m pytest -m slow tests/launch/test_rehearse.py
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from launch.jobs.snapshot import PACKAGES
from launch.rehearse.null_cuda import build
from panendofm.runtime.errors import UserError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HEALTHY = "healthy"
TINY = (
    *("run.dir=x", "data.shards=y", "augment.global_px=28", "augment.local_px=14", "augment.local_crops=1"),
    *("model.name=vit_test", "model.image_px=28", "model.depth=1", "objective.dino_head.prototypes=32"),
    *("objective.ibot_head.prototypes=32", "objective.dino_head.hidden=32", "objective.ibot_head.hidden=32"),
)


@dataclass(frozen=True)
class Plant:
    """A line that is put after another one in a copy of the project."""

    name: str
    file: str
    after: str
    line: str
    says: str
    needs_cuda: bool = False

    def text(self) -> str:
        lines = (ROOT / self.file).read_text().splitlines()
        place = self.line_number - 1
        indent = lines[place - 1][: len(lines[place - 1]) - len(lines[place - 1].lstrip())]
        return "\n".join([*lines[:place], indent + self.line, *lines[place:]]) + "\n"

    @property
    def line_number(self) -> int:
        """Of the planted line."""
        (found,) = (n for n, line in enumerate((ROOT / self.file).read_text().splitlines(), 1) if self.after in line)
        return found + 1


LOSSES, TARGETS = "pretrain/objective/losses.py", "pretrain/objective/targets.py"
MINE = "mine = F.normalize("
PLANTS = [
    Plant("a CPU tensor in the loss", LOSSES, MINE, "mine = mine * torch.ones(len(mine), 1)", "same device", True),
    Plant(
        "an item() in the step",
        "pretrain/optimizer/step.py",
        "losses: dict[str, Tensor] = self.objective(",
        "losses[TOTAL].item()",
        "waits for a number",
    ),
    Plant(
        "a float64 constant",
        LOSSES,
        MINE,
        "mine = mine * torch.full((1, 1), 0.5, dtype=torch.float64, device=mine.device)",
        "float64",
    ),
    Plant(
        "a collective on one rank only",
        TARGETS,
        "log_q = scores.float().div_(temperature)",
        "_ = torch.distributed.get_rank() == 0 and torch.distributed.all_reduce(log_q.sum())",
        "they would hang",
    ),
    Plant(
        "a parameter that FSDP does not know",
        "pretrain/objective/dinov2.py",
        "super().__init__(vit, config, execution, trainable)",
        "self.scale = nn.Parameter(torch.ones(8))",
        "'scale' is not sharded",
    ),
    Plant(
        "a buffer left on meta",
        TARGETS,
        "self.iterations = iterations",
        'self.register_buffer("prior", torch.zeros(1)); self._apply = lambda fn, recurse=True: self',
        "targets.prior' was left on meta",
    ),
    Plant(
        "a buffer that no run fills",
        "pretrain/objective/dinov2.py",
        "super().__init__(vit, config, execution, trainable)",
        'self.register_buffer("ratio", torch.full((1,), 0.5), persistent=False)',
        "'ratio' is not saved",
    ),
]


@dataclass(frozen=True)
class Said:
    code: int
    text: str


def run_plants(
    plants: list[Plant], folder: Path, python: str, device: str, environment: dict[str, str]
) -> dict[str, Said]:
    for package in (*PACKAGES, "configs"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    healthy = {"name": HEALTHY, "file": LOSSES, "text": (ROOT / LOSSES).read_text()}
    planted = [{"name": plant.name, "file": plant.file, "text": plant.text()} for plant in plants]
    (folder / "plants.json").write_text(json.dumps([healthy, *planted]))
    command = [python, "-B", str(HERE / "planted_faults.py"), str(folder), str(folder / "plants.json")]
    words = ["rehearse", "configs/pretrain/doctor.yaml", "--gpus", "2", "--device", device, *TINY]
    done = subprocess.run(
        [*command, *words],
        env=os.environ | {"PYTHONPATH": ""} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {item["name"]: Said(item["code"], item["said"]) for item in found}


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    plants = [plant for plant in PLANTS if not plant.needs_cuda]
    return run_plants(plants, tmp_path_factory.mktemp("copy"), sys.executable, "cpu", {})


@pytest.fixture(scope="module")
def cuda_python() -> str:
    """An interpreter whose torch is built for CUDA."""
    interpreter = os.environ.get("CUDA_TORCH_PYTHON")
    if interpreter is None:
        pytest.skip("no torch that is built for CUDA: name an interpreter that has one in CUDA_TORCH_PYTHON")
    return interpreter


@pytest.fixture(scope="module")
def null_cuda(cuda_python: str) -> dict[str, str]:
    """What makes that torch see two GPUs."""
    code = "import importlib.util; print(importlib.util.find_spec('torch').origin)"
    origin = subprocess.run([cuda_python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    return {"LD_PRELOAD": str(build(Path(origin).parent)), "NULL_CUDA_DEVICES": "2", "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def on_null_cuda(
    tmp_path_factory: pytest.TempPathFactory, cuda_python: str, null_cuda: dict[str, str]
) -> dict[str, Said]:
    return run_plants(PLANTS, tmp_path_factory.mktemp("copy"), cuda_python, "cuda", null_cuda)


def assert_named(plant: Plant, said: Said) -> None:
    assert said.code == 1, said.text
    assert plant.says in said.text
    assert f"{plant.file}:{plant.line_number} in" in said.text, said.text


def test_a_healthy_training_passes(on_cpu: dict[str, Said]) -> None:
    said = on_cpu[HEALTHY]
    assert said.code == 0, said.text
    assert "no fault: ranks 0, 1 of 2" in said.text
    assert "all-gather over 2" in said.text and "reduce-scatter over 2" in said.text


@pytest.mark.parametrize("plant", [plant for plant in PLANTS if not plant.needs_cuda], ids=lambda plant: plant.name)
def test_a_planted_fault_is_named_with_its_line(on_cpu: dict[str, Said], plant: Plant) -> None:
    assert_named(plant, on_cpu[plant.name])


@pytest.mark.slow
def test_a_healthy_training_passes_on_fake_gpus(on_null_cuda: dict[str, Said]) -> None:
    said = on_null_cuda[HEALTHY]
    assert said.code == 0, said.text
    assert "by torch's allocator" in said.text and "kernels" in said.text


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_planted_fault_is_named_with_its_line_on_fake_gpus(on_null_cuda: dict[str, Said], plant: Plant) -> None:
    assert_named(plant, on_null_cuda[plant.name])


@pytest.mark.slow
def test_a_compiled_training_passes_on_fake_gpus(cuda_python: str) -> None:
    """Blocks are traced by torch.compile, forward and backward, as on a GPU."""
    words = ["rehearse", "configs/pretrain/doctor.yaml", "--gpus", "2", *TINY, "execution.compile=true"]
    done = subprocess.run([cuda_python, "-m", "launch", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no fault: ranks 0, 1 of 2" in done.stdout


def test_a_torch_without_cuda_is_told_apart_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from launch.rehearse.null_cuda import restart_with_null_cuda

    if torch.version.cuda is not None:
        pytest.skip("this torch is built for CUDA")
    with pytest.raises(UserError, match=r"a CPU build.*pip install torch.*--device cpu"):
        restart_with_null_cuda(8)
