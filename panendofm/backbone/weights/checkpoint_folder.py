"""The tensors of a sharded checkpoint (torch.distributed.checkpoint), read without a process group."""

from __future__ import annotations

import io
import pickle
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load

from panendofm.backbone.lora import merge_adapters
from panendofm.records.run import METADATA_NAME, tensor_files
from panendofm.runtime.errors import UserError, naming_path

# What torch writes into a checkpoint's metadata. Any other name in that pickle could be code.
_METADATA_NAMES = {
    ("collections", "OrderedDict"),
    ("pathlib", "Path"),
    ("pathlib", "PosixPath"),
    ("torch", "Size"),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.serialization", "_get_layout"),
}


def read_backbone(checkpoint: Path, role: str) -> dict[str, Tensor]:
    """The teacher's or student's backbone tensors, by their official names, put together from all shards."""
    return merge_adapters(read_tensors(checkpoint, f"{role}.backbone."))


def read_tensors(checkpoint: Path, prefix: str) -> dict[str, Tensor]:
    """All tensors whose names begin so, without that beginning, put together from all shards."""
    reader = SafeReader(checkpoint)
    try:
        stored = reader.read_metadata().state_dict_metadata
        _refuse_impossible_sizes(stored, checkpoint)
        state: dict[str, Any] = {
            name: torch.empty(item.size, dtype=item.properties.dtype)
            for name, item in stored.items()
            if name.startswith(prefix) and isinstance(item, TensorStorageMetadata)
        }
        if not state:
            raise UserError(f"the checkpoint {checkpoint} holds no tensors '{prefix}…'; use a checkpoint of pretrain.")
        # Without collectives: one rank may load while the others do something else.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # that is the intent
            load(state, storage_reader=reader, no_dist=True)
    except UserError:
        raise
    except (CheckpointException, Exception) as error:
        # CheckpointException is no Exception; a damaged index or file of tensors ends in any kind of error.
        raise UserError(
            f"cannot read the checkpoint {checkpoint}: a file of it is missing or damaged; use another checkpoint."
        ) from error
    return {name.removeprefix(prefix): tensor for name, tensor in state.items()}


def _refuse_impossible_sizes(stored: dict[str, Any], checkpoint: Path) -> None:
    """Before memory is taken: no tensor is larger than all files together."""
    available = sum(file.stat().st_size for file in tensor_files(checkpoint))
    for name, item in stored.items():
        if isinstance(item, TensorStorageMetadata) and item.size.numel() * item.properties.dtype.itemsize > available:
            raise UserError(
                f"cannot read the checkpoint {checkpoint}: a file of it is missing or damaged ('{name}' is said to be "
                "larger than its files); use another checkpoint."
            )


class SafeReader(FileSystemReader):
    """torch's reader, except that the metadata, which is a pickle, is vetted before torch loads it."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        path = Path(self.path) / METADATA_NAME
        with naming_path("read", path):
            content = path.read_bytes()
        try:
            metadata = _MetadataUnpickler(io.BytesIO(content)).load()
        except _ForeignNameError as error:
            raise UserError(
                f"refused to load {path}: it names {error}, which is no part of a checkpoint's metadata and could run "
                "code when it is loaded; use a checkpoint from a source that you trust."
            ) from error
        except Exception as error:  # a pickle that was cut off or overwritten fails in any way
            raise UserError(f"cannot read {path}: it is damaged or incomplete; use another checkpoint.") from error
        if not isinstance(metadata, Metadata):
            raise UserError(f"cannot read {path}: it is not the metadata of a checkpoint.")
        return super().read_metadata(*args, **kwargs)


class _ForeignNameError(Exception):
    """The pickle names something that metadata has no use for."""


class _MetadataUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = (module, name) in _METADATA_NAMES
        of_metadata = module == "torch.distributed.checkpoint.metadata" and "." not in name
        dtype = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype | torch.layout)
        if not (known or of_metadata or dtype):
            raise _ForeignNameError(f"{module}.{name}")
        named = super().find_class(module, name)
        if of_metadata and not (isinstance(named, type) and named.__module__ == module):
            raise _ForeignNameError(f"{module}.{name}")
        return named
