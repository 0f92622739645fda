"""A run's weights beside those that it began with: averaged, and never released when they are worse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from panendofm.backbone.weights.load import LoadedBackbone, load_backbone, weights_checksum
from panendofm.records.evaluation import WORSE, read_selection
from panendofm.records.run import RunFolder, is_whole_checkpoint
from panendofm.runtime.errors import UserError
from panendofm.runtime.yaml_files import read_yaml


def run_of_source(loaded: LoadedBackbone) -> RunFolder | None:
    """The run that the weights are a checkpoint of."""
    run = loaded.origin.run
    return None if run is None else RunFolder(Path(run))


def refuse_worse_than_start(loaded: LoadedBackbone) -> None:
    """Raise when the run's own evaluations put this checkpoint below step 0. What was not evaluated passes."""
    run = run_of_source(loaded)
    selection = read_selection(run) if run is not None else None
    if run is None or selection is None:
        return
    name = Path(loaded.origin.checkpoint or "").resolve().name
    against = selection.against_start.get(name)
    if against is not None and against.verdict == WORSE:
        raise UserError(
            f"{name} of {run.path} is worse than the weights that it began with: {selection.metric} "
            f"{against.difference:+.4f} (interval {against.low:+.4f} to {against.high:+.4f}); "
            f"export {run.best}, or add allow_worse_than_start=true."
        )


def averaged_with_start(loaded: LoadedBackbone, share: float, start: Path | str | None = None) -> LoadedBackbone:
    """(1 − share) · these weights + share · those of the start."""
    if not 0 < share < 1:
        raise UserError(f"average_with_start={share:g}: the share of the starting weights lies between 0 and 1.")
    path = Path(start) if start is not None else _start_of_run(loaded)
    first = load_backbone(path, architecture=replace(loaded.model.config, drop_path=0.0)).model.state_dict()
    with torch.no_grad():
        for name, tensor in loaded.model.state_dict().items():
            tensor.lerp_(first[name], share)
    return replace(
        loaded,
        weights_sha256=weights_checksum(loaded.model.config, loaded.model.state_dict()),
        origin=replace(loaded.origin, start_share=share),
    )


def _start_of_run(loaded: LoadedBackbone) -> Path:
    """The run's checkpoint of step 0 where it is kept, else what its configuration names."""
    run = run_of_source(loaded)
    if run is None:
        raise UserError("average_with_start needs a run's checkpoint, or the starting weights by start=WEIGHTS.")
    if is_whole_checkpoint(run.checkpoint(0)):
        return run.checkpoint(0)
    stored = read_yaml(run.config) if run.config.is_file() else {}
    init = stored.get("init") if isinstance(stored, dict) else None
    named = init.get("weights") if isinstance(init, dict) else None
    if not named or not Path(named).exists():
        raise UserError(f"the starting weights of {run.path} are not there any more; name them by start=WEIGHTS.")
    return Path(named)
