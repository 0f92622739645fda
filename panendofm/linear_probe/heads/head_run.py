"""A stored head and its network, ready to answer: for predictions, timing, video reports and the shortcut test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor, nn

from panendofm.backbone import cleaned, device_of
from panendofm.backbone.networks import Network
from panendofm.imaging.frame_filters.clean import Cleaner
from panendofm.imaging.images import is_image
from panendofm.linear_probe.config import HeadConfig
from panendofm.linear_probe.heads.head_file import StoredHead, check_fits, load_head, network_of_head, probabilities
from panendofm.runtime.csv_files import read_csv, unescaped
from panendofm.runtime.errors import UserError


@dataclass(frozen=True)
class HeadRun:
    head: StoredHead
    network: Network
    module: nn.Module
    device: torch.device

    @torch.no_grad()
    def features(self, images: Tensor) -> Tensor:
        """Features [B, width] of pre-processed images [B, 3, H, W]."""
        return self.head.info.kind.of(self.module, images.to(self.device)).float().cpu()

    def answer(self, images: Tensor) -> Tensor:
        """Calibrated probabilities [B, C]."""
        return self.finding(self.features(images))

    def finding(self, features: Tensor) -> Tensor:
        """The same of features [B, width] that were computed already."""
        return probabilities(self.head, features)

    def prepare(self, images: Sequence[Image.Image | Path | str]) -> Tensor:
        if self.head.info.clean:
            images = [cleaned(image, Cleaner()) for image in images]
        return torch.stack([self.network.preprocessing(image) for image in images])  # [B, 3, H, W]


def open_head(path: Path, config: HeadConfig) -> HeadRun:
    head = load_head(path)
    device = device_of(config.device, "device")
    network = network_of_head(path, head.info.word, config.network)
    check_fits(head.info, path, network)
    return HeadRun(head, network, network.load().to(device), device)


def open_exclusive_head(path: Path, config: HeadConfig) -> HeadRun:
    """A head that gives one answer per image."""
    run = open_head(path, config)
    if not run.head.info.exclusive or len(run.head.info.levels) > 1:
        raise UserError(
            f"{path}: its task ({run.head.info.task}) allows several answers an image; use a head of a task with one, "
            "such as that of a folder of class folders."
        )
    return run


def image_files(sources: Sequence[str]) -> list[Path]:
    """Images, folders of images, and CSVs with a column `file` (relative to the folder of the CSV, or to here)."""
    files: list[Path] = []
    for source in sources:
        path = Path(source)
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if is_image(p))
            if not inside:
                raise UserError(f"{path}: there are no images in this folder.")
            files += inside
        elif path.suffix.lower() == ".csv":
            files += _listed(path)
        else:
            files.append(path)  # a missing or damaged file is reported when it is read
    return files


def _listed(path: Path) -> list[Path]:
    rows = read_csv(path, ["file"])
    if not rows:
        raise UserError(f"{path}: there is no line in it; list one image a line.")
    return [Path(unescaped(row["file"])) for row in rows]
