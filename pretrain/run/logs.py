"""Where a run's metrics go: its metrics file always, W&B and TensorBoard when asked for. First rank only."""

from __future__ import annotations

import os
import uuid
from typing import Any

from panendofm.records.metrics import MetricsFile, StepMetrics
from panendofm.records.run import RunFolder
from panendofm.runtime.files import write_text
from panendofm.runtime.names import without_folders
from pretrain.config import LogConfig


class RunLog:
    """The metrics of a run, from a step on."""

    def __init__(self, run: RunFolder, config: LogConfig, first_step: int, settings: dict[str, Any]) -> None:
        self.metrics = MetricsFile(run.metrics, first_step)
        self._tensorboard: Any = None
        self._wandb: Any = None
        if config.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            # purge_step: what was written of later steps is about to be written again.
            self._tensorboard = SummaryWriter(str(run.path / "tensorboard"), purge_step=first_step)
        if config.wandb != "none":
            self._wandb = _start_wandb(run, config, settings)

    def write(self, step: int, values: StepMetrics) -> None:
        self.metrics.append(step, values)
        flat = dict(_flat(values))
        if self._tensorboard is not None:
            for name, value in flat.items():
                self._tensorboard.add_scalar(name, value, step)
        if self._wandb is not None:
            self._wandb.log(flat, step=step)

    def close(self) -> None:
        self.metrics.close()
        if self._tensorboard is not None:
            self._tensorboard.close()
        if self._wandb is not None:
            self._wandb.finish()


def _start_wandb(run: RunFolder, config: LogConfig, settings: dict[str, Any]) -> Any:
    import wandb

    id_file = run.path / "wandb_id"
    if not id_file.exists():
        write_text(id_file, uuid.uuid4().hex[:12])
    os.environ.setdefault("WANDB_SILENT", "true")
    return wandb.init(
        project=config.wandb_project,
        dir=str(run.path),
        id=id_file.read_text(encoding="utf-8"),
        resume="allow",
        mode="online" if config.wandb == "online" else "offline",
        config=_published(settings),
        # Nothing of the machine: neither its name, its user and its paths, nor the state of a repository.
        settings=wandb.Settings(
            x_disable_meta=True,
            x_disable_machine_info=True,
            x_disable_stats=True,
            disable_git=True,
            disable_code=True,
            save_code=False,
            console="off",
            host="",
        ),
    )


def _published(value: Any) -> Any:
    """Settings as others may see them: of absolute paths only the last part."""
    if isinstance(value, dict):
        return {name: _published(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_published(inner) for inner in value]
    return without_folders(value) if isinstance(value, str) else value


def _flat(values: StepMetrics, prefix: str = "") -> list[tuple[str, float]]:
    """Numbers by their dotted names."""
    pairs: list[tuple[str, float]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            pairs += _flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            pairs.append((prefix + name, float(value)))
    return pairs
