"""Lets torchvision be imported where its compiled part can't load.

A torchvision built for CUDA fails at import on a machine without CUDA libraries, because the operators that its
compiled part would bring are missing. timm and transformers import torchvision, though our models use none of those
operators. Declaring the operators' signatures is enough for the import. Call `ensure_torchvision` before importing timm
or transformers; it does nothing where torchvision works or isn't installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys

import torch

_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
# torch forgets the declared operators when their library object is freed.
_declared: list[torch.library.Library] = []


def ensure_torchvision() -> None:
    """Make `import torchvision` work if it is installed but lacks its operators."""
    if importlib.util.find_spec("torchvision") is None:
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
        library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for name in ("nms", "qnms"):
            library.define(name + _SIGNATURE)  # type: ignore[no-untyped-call]
        _declared.append(library)
        for name in [m for m in sys.modules if m.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        importlib.import_module("torchvision")
