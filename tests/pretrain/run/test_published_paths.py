"""What leaves a run for others holds no folder of the machine."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp

from panendofm.backbone.weights.checkpoint_folder import SafeReader
from panendofm.records.run import RunFolder
from pretrain.config import LogConfig
from pretrain.run.checksummed_writer import ChecksummedWriter
from pretrain.run.logs import RunLog


def test_the_index_of_a_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "some-person" / "run" / "checkpoints" / "step_0000001"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch remarks that one process saves alone
        dcp.save({"a": torch.ones(3)}, storage_writer=ChecksummedWriter(folder), no_dist=True)
    for file in folder.iterdir():
        assert b"some-person" not in file.read_bytes(), file
    assert list(SafeReader(folder).read_metadata().state_dict_metadata) == ["a"]


def test_settings_for_wandb(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    run = RunFolder(tmp_path / "some-person" / "run")
    run.path.mkdir(parents=True)
    settings = {"run": {"dir": str(run.path)}, "data": {"shards": f"{tmp_path}/some-person/shards", "list": ["/a/b"]}}
    config = LogConfig(wandb="offline")
    log = RunLog(run, config, 0, {**settings, "log": asdict(config)})
    log.write(0, {"loss": 1.0})
    log.close()
    # Its own logs stay here: only the rest goes to the server, at once or by `wandb sync`.
    files = [p for p in run.path.rglob("*") if p.is_file() and not p.name.startswith("debug")]
    assert any(p.suffix == ".wandb" for p in files)
    for file in files:
        assert b"some-person" not in file.read_bytes(), file
