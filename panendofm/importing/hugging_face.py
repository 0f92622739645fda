"""A Hugging Face dataset that `save_to_disk` wrote: Arrow files, read without the package `datasets`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from panendofm.importing.image_folder import file_facts
from panendofm.importing.samples import Sample
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import read_json_object

STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"
_TRAIN = "train"


class HuggingFaceDataset:
    def __init__(self, folder: Path) -> None:
        self.name = folder.resolve().name
        self.folder = _split_of(folder)
        self.column = _image_column(self.folder)

    def files(self) -> list[Path]:
        listed = read_json_object(self.folder / STATE).get("_data_files", [])
        names = [entry.get("filename") for entry in listed if isinstance(entry, dict)]
        if not names or any(not isinstance(name, str) or Path(name).name != name for name in names):
            raise UserError(f"{self.folder / STATE} lists no Arrow files; save the dataset again with save_to_disk.")
        return [self.folder / str(name) for name in names]

    def count(self) -> int:
        return sum(len(batch) for path in self.files() for batch in self._batches(path))

    def samples(self) -> Iterator[Sample]:
        images = (image for path in self.files() for image in self._images(path))
        for row, image in enumerate(images):
            yield Sample(f"row {row}", image)

    def facts(self) -> list[str]:
        return [file_facts(path, self.folder) for path in self.files()]

    def _images(self, path: Path) -> Iterator[bytes]:
        for batch in self._batches(path):
            for value in batch.column(self.column):
                yield self._bytes_of(value.as_py())

    def _batches(self, path: Path) -> Iterator[pa.RecordBatch]:
        with naming_path("read the dataset", path), pa.memory_map(str(path)) as file:
            try:
                yield from pa.ipc.open_stream(file)
            except (pa.ArrowInvalid, KeyError) as error:
                raise UserError(f"{path} is damaged ({error}); save the dataset again with save_to_disk.") from error

    def _bytes_of(self, value: dict[str, Any] | None) -> bytes:
        if value is None:
            raise UserError(f"{self.folder}: a row of '{self.column}' has no image; remove it and save again.")
        content, path = value.get("bytes"), value.get("path")
        if isinstance(content, bytes):
            return content
        with naming_path("read the image", str(path)):
            return Path(str(path)).read_bytes()


def is_saved_dataset(folder: Path) -> bool:
    return (folder / STATE).is_file() or (folder / SPLITS).is_file()


def _split_of(folder: Path) -> Path:
    """The folder itself, or that of its training split."""
    if not (folder / SPLITS).is_file():
        return folder
    splits = read_json_object(folder / SPLITS).get("splits", [])
    if _TRAIN not in splits:
        raise UserError(f"{folder} has the splits {', '.join(map(str, splits))}; name the folder of one of them.")
    return folder / _TRAIN


def _image_column(folder: Path) -> str:
    try:
        features = json.loads((folder / INFO).read_text(encoding="utf-8")).get("features") or {}
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"cannot read {folder / INFO}: {error}; save the dataset again with save_to_disk.") from error
    images = [name for name, kind in features.items() if isinstance(kind, dict) and kind.get("_type") == "Image"]
    if len(images) != 1:
        found = ", ".join(images) or "none"
        raise UserError(f"{folder}: exactly one column of images is needed, and it has {found}; save it with one.")
    return str(images[0])
