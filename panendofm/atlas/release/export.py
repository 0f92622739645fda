"""`atlas export`: an atlas as a folder that can be given to others. The images stay with their datasets."""

from __future__ import annotations

import json
from pathlib import Path

from panendofm.atlas.build import Atlas, load_atlas
from panendofm.atlas.release.about import croissant, datasheet
from panendofm.atlas.release.images_csv import images_csv
from panendofm.atlas.samples import samples_of
from panendofm.atlas.split import SPLITS, load_split, save_split, split_path
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, sha256_of, write_text

IMAGES, SPLIT, CROISSANT, DATASHEET = "images.csv", "split.parquet", "croissant.json", "DATASHEET.md"


def export_atlas(path: Path, out: Path, name: str, version: str) -> int:
    """Write the folder; returns the number of images."""
    atlas = load_atlas(path)
    samples = samples_of(atlas.rows)
    split = load_split(split_path(path, path.parent), samples)
    _check_names(atlas)
    make_directory(out)
    sides = {
        sample.sha256: (SPLITS[side], group)
        for sample, side, group in zip(samples, split.sides.tolist(), split.groups.tolist(), strict=True)
    }
    write_text(out / IMAGES, images_csv(atlas.rows, sides))
    save_split(split, samples, out / SPLIT)
    write_text(out / DATASHEET, datasheet(name, atlas, split.report))
    checksums = {file: sha256_of(out / file) for file in (IMAGES, SPLIT, DATASHEET)}
    metadata = croissant(name, version, atlas, checksums)
    write_text(out / CROISSANT, json.dumps(metadata, indent=1, ensure_ascii=False) + "\n")
    return len(atlas.rows)


def _check_names(atlas: Atlas) -> None:
    """Names that several folders of a dataset share are told apart by their checksums, and by nothing else."""
    seen = set()
    for row in atlas.rows:
        key = (row.dataset, row.file, row.sha256)
        if key in seen:
            raise UserError(f"{row.dataset}: {row.file} is in the atlas twice; build it without the copy.")
        seen.add(key)
