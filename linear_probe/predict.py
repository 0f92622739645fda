"""A trained head on new pictures: a CSV with file, category, confidence and time."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from backbone import device_of
from backbone.networks import find_network
from linear_probe.head_file import check_fits, load_head, probabilities
from runtime.console import say, track
from runtime.csv_files import csv_text
from runtime.errors import UserError
from runtime.files import write_text
from runtime.images import is_image

COLUMNS = ("file", "category", "confidence", "time_ms")


@torch.no_grad()
def predict(head_path: Path, images: list[str], weights: str | None, out: Path, device: str = "cpu") -> Path:
    """One row a picture and level. In a task whose classes may meet, every class above one half has a row."""
    head = load_head(head_path)
    on = device_of(device, "--device")
    network = find_network(weights or head.word)
    check_fits(head, head_path, network)
    module = network.load().to(on)
    files = _files(images)
    rows: list[list[str]] = []
    for file in track(files, "pictures", len(files), "images"):
        began = time.perf_counter()
        batch = network.preprocessing(file)[None].to(on)  # [1, 3, H, W]
        answer = probabilities(head, head.kind.of(module, batch).float().cpu())[0]  # [C]
        elapsed_ms = 1000 * (time.perf_counter() - began)
        for level, start, stop in head.levels:
            chosen = answer[start:stop]
            best = int(chosen.argmax())
            shown = [best] if head.exclusive else sorted({best, *torch.nonzero(chosen > 0.5).flatten().tolist()})
            for c in shown:
                name = head.classes[start + c]
                category = f"{level}:{name}" if level else name
                rows.append([str(file), category, f"{float(chosen[c]):.4f}", f"{elapsed_ms:.1f}"])
    write_text(out, csv_text(COLUMNS, rows))
    say(f"{len(files)} pictures → {out}")
    return out


def _files(images: list[str]) -> list[Path]:
    files: list[Path] = []
    for word in images:
        path = Path(word)
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if is_image(p))
            if not inside:
                raise UserError(f"{path}: there are no pictures in this folder.")
            files += inside
        else:
            files.append(path)  # a missing or damaged file is reported when it is read
    return files
