"""What one rank does: first what concerns it alone, then what it does with the others."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from launch.doctor.acceptance import check_acceptance
from launch.doctor.attention import check_attention
from launch.doctor.file_system import check_file_system
from launch.doctor.neighbors import check_neighbors
from launch.doctor.ranks import (
    PARAMETERS_TRAVEL,
    check_collectives,
    check_sharding,
    check_shared_folder,
    sharding_modes,
    train_alone,
)
from launch.doctor.rows import Notes
from launch.doctor.training import acceptable_steps, check_training
from launch.doctor.versions import check_versions
from pretrain import PretrainConfig, joined_world, place_of_process, requirements_of

# A rank that does not answer for so long is lost: the doctor waits for nobody longer.
_TIMEOUT_SECONDS = 180.0
FAMILIES = (
    "versions",
    "attention",
    "kNN",
    "file system",
    "alone",
    "shared folder",
    "collectives",
    "sharding",
    "training",
    "acceptance",
)


@dataclass(frozen=True)
class DoctorFolder:
    """Where the ranks leave their notes and what they need for a moment."""

    path: Path

    @property
    def report(self) -> Path:
        return self.path / "doctor.json"

    @property
    def scratch(self) -> Path:
        return self.path / "scratch"

    @property
    def images(self) -> Path:
        """Shards of drawn images."""
        return self.scratch / "images"

    def notes(self, rank: int) -> Path:
        return self.scratch / "notes" / f"rank_{rank}.jsonl"


def examine(folder: DoctorFolder, config: PretrainConfig, wants_gpu: bool, full: bool = False) -> None:
    """All checks, on this rank; `full`: and an acceptance run.

    An error of one family is a row; one among several ranks ends this process.
    """
    place = place_of_process(os.environ)
    notes = Notes(folder.notes(place.rank))
    with joined_world(config.run.device, _TIMEOUT_SECONDS, alone=True) as alone:
        device = alone.device
        _check_machine(notes, device, config, wants_gpu)
        if place.local_rank == 0:
            with notes.family("file system"):
                needs = requirements_of(config, place.size, place.local_size)
                for row in check_file_system(folder.scratch / f"files-{place.rank}", config, needs):
                    notes.add(row)
        figures = None
        if place.rank == 0:
            with notes.family("alone", stops=True):
                figures = train_alone(alone, folder.scratch, folder.images, place.size)
    with joined_world(config.run.device, _TIMEOUT_SECONDS) as world:
        with notes.family("shared folder", stops=True):
            for row in check_shared_folder(world, folder.scratch):
                notes.add(row)
        bytes_per_second = float("inf")
        with notes.family("collectives", stops=True):
            for row in check_collectives(world):
                if row.check == PARAMETERS_TRAVEL:
                    bytes_per_second = row.figures.get("bytes_per_second", bytes_per_second)
                notes.add(row)
        with notes.family("sharding", stops=True):
            for row in check_sharding(
                world, folder.scratch, folder.images, world.broadcast(figures), sharding_modes(world)
            ):
                notes.add(row)
        with notes.family("training", stops=True):
            for row in check_training(world, config, folder.scratch / "run", bytes_per_second):
                notes.add(row)
        if full:
            with notes.family("acceptance", stops=True):
                steps = acceptable_steps(world, config, folder.images)
                for row in check_acceptance(world, steps, folder.scratch / "acceptance"):
                    notes.add(row)


def _check_machine(notes: Notes, device: torch.device, config: PretrainConfig, wants_gpu: bool) -> None:
    with notes.family("versions"):
        for row in check_versions(device, wants_gpu):
            notes.add(row)
    with notes.family("attention"):
        for row in check_attention(device, config.execution.attention):
            notes.add(row)
    with notes.family("kNN"):
        for row in check_neighbors():
            notes.add(row)
