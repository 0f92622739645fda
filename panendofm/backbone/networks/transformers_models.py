"""Vision encoders in a folder of the transformers library."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from panendofm.backbone.networks.network import Description, Loaded, Outputs, Source, values_checksum
from panendofm.backbone.preprocessing import transformers_preprocessing
from panendofm.backbone.torchvision_shim import ensure_torchvision
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json_object


class TransformersEncoder(nn.Module):
    """One vector [B, D]: the pooled output, or the first token; and the patch tokens of blocks as maps."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, images: Tensor) -> Tensor:
        output = self.encoder(pixel_values=images)
        pooled = getattr(output, "pooler_output", None)
        feature: Tensor = pooled if pooled is not None else output.last_hidden_state[:, 0]
        return feature.flatten(1)

    def feature_maps(self, images: Tensor, last: int = 1) -> list[Tensor]:
        """[B, D, h, w] of the last blocks, through the final norm where the encoder has one by its usual name."""
        states = self.encoder(pixel_values=images, output_hidden_states=True).hidden_states[-last:]  # [B, T, D] each
        patch_px = int(cast(Any, self.encoder.config).patch_size)
        grid = images.shape[-2] // patch_px, images.shape[-1] // patch_px
        norm = getattr(self.encoder, "layernorm", nn.Identity())
        # Whatever stands before the patches (cls, registers) is cut off.
        patches = [norm(state)[:, -grid[0] * grid[1] :] for state in states]
        return [p.mT.reshape(len(images), -1, *grid) for p in patches]


def transformers_source(rest: str) -> Source:
    """`transformers:FOLDER`."""
    folder = Path(rest)
    if not (folder / "config.json").is_file():
        raise UserError(f"transformers:{rest}: {folder / 'config.json'} is missing; name a transformers folder.")
    return Source(folder.resolve().name, partial(_read, folder), kind="transformers", files=folder)


def _read(folder: Path) -> Loaded:
    ensure_torchvision()
    from transformers import AutoModel

    try:
        encoder = AutoModel.from_pretrained(str(folder), local_files_only=True).eval()
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise UserError(f"transformers:{folder}: transformers can't load it ({reason}).") from error
    module = TransformersEncoder(encoder)
    config = encoder.config
    architecture = str(getattr(config, "model_type", "transformers"))
    file = folder / "preprocessor_config.json"
    preprocessing = transformers_preprocessing(
        read_json_object(file) if file.is_file() else {}, file, int(getattr(config, "image_size", 224))
    )
    blocks = int(getattr(config, "num_hidden_layers", 0)) if isinstance(getattr(config, "patch_size", None), int) else 0
    description = Description(
        architecture, values_checksum(architecture, module), preprocessing, Outputs(maps=blocks), "transformers"
    )
    return Loaded(module.eval(), description)
