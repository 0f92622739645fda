"""Vision encoders in a folder of the transformers library."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from panendofm.backbone.networks.network import Description, Loaded, Outputs, Source, values_checksum
from panendofm.backbone.preprocessing import transformers_preprocessing
from panendofm.backbone.torchvision_shim import ensure_torchvision
from panendofm.backbone.weights.fit import beside_the_head, refuse_misfit
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json_object
from panendofm.runtime.names import printable

_FINAL_NORMS = ("layernorm", "norm")  # DINOv2's and ViT's, DINOv3's
_IS_COUNT = re.compile("layers|depth|blocks|heads|experts|stages")
_MOST_LAYERS = 1000
_LARGEST_SIZE = 50_000_000  # positions of a long context, pixels


class TransformersEncoder(nn.Module):
    """One vector [B, D]: the pooled output, or the first token; and the patch tokens of blocks as maps."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, images: Tensor) -> Tensor:
        return _vector(self.encoder(pixel_values=images))

    def feature_maps(self, images: Tensor, last: int = 1) -> list[Tensor]:
        """[B, D, h, w] of the last blocks, through the final norm where the encoder has one by its usual name."""
        states = self.encoder(pixel_values=images, output_hidden_states=True).hidden_states[-last:]
        norms = [getattr(self.encoder, name) for name in _FINAL_NORMS if hasattr(self.encoder, name)]
        norm = norms[0] if norms else nn.Identity()
        return [self._map(norm(state), images) for state in states]

    def vector_and_map(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """What forward() gives, and the last map, in one pass."""
        output = self.encoder(pixel_values=images)
        return _vector(output), self._map(output.last_hidden_state, images)

    def _map(self, state: Tensor, images: Tensor) -> Tensor:
        """Tokens [B, T, D] of a block to [B, D, h, w]."""
        patch_px = int(cast(Any, self.encoder.config).patch_size)
        grid = images.shape[-2] // patch_px, images.shape[-1] // patch_px
        patches = state[:, -grid[0] * grid[1] :]  # what stands before them (cls, registers) is cut off
        return patches.mT.reshape(len(images), -1, *grid)


def _vector(output: Any) -> Tensor:
    pooled = getattr(output, "pooler_output", None)
    feature: Tensor = pooled if pooled is not None else output.last_hidden_state[:, 0]
    return feature.flatten(1)


def transformers_source(rest: str) -> Source:
    """`transformers:FOLDER`."""
    folder = Path(rest)
    if not (folder / "config.json").is_file():
        raise UserError(f"transformers:{rest}: {folder / 'config.json'} is missing; name a transformers folder.")
    return Source(folder.resolve().name, partial(_read, folder), kind="transformers", files=folder)


def load_pretrained(kind: Any, folder: Path, source: str) -> Any:
    """The model of a folder, of one of transformers' auto classes. `source` names the folder in messages.

    No code of the folder runs: neither its Python files nor its pickles. A tensor that the file lacks would be drawn at
    random, so every tensor must fit.
    """
    if not any(folder.glob("*.safetensors")):
        raise UserError(
            f"{source}: it holds no .safetensors file; pickled weights (.bin) can run any code when they are loaded "
            "and are refused, ask its author for safetensors."
        )
    _refuse_sizes(read_json_object(folder / "config.json"), source)
    try:
        model, report = kind.from_pretrained(
            str(folder),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
    except Exception as error:
        # A config may say anything of sizes and kinds: what it breaks in the library ends in any kind of error.
        reason = printable((str(error).splitlines() or [type(error).__name__])[0].rstrip("."))
        if "trust_remote_code" in str(error) or "auto_map" in str(error):
            reason = "it needs Python code of its own folder, which is not run"
        raise UserError(f"{source}: transformers can't load it ({reason}).") from error
    prefix = f"{model.base_model_prefix}."
    unexpected = [name.removeprefix(prefix) for name in report["unexpected_keys"]]
    wanted = {name.removeprefix(prefix) for name in model.state_dict()}
    misshapen = [str(entry[0]) for entry in report["mismatched_keys"]]
    refuse_misfit(source, report["missing_keys"], misshapen, beside_the_head(unexpected, wanted))
    return model.eval()


def _refuse_sizes(values: dict[str, Any], source: str) -> None:
    """Numbers of layers and widths that no model has: the library would build it all before it looks at the weights."""
    for name, value in values.items():
        if isinstance(value, dict):
            _refuse_sizes(value, source)
        elif isinstance(value, int) and value > (_MOST_LAYERS if _IS_COUNT.search(name) else _LARGEST_SIZE):
            raise UserError(f"{source}: its config says {name}={value}, which no model has; restore config.json.")


def _read(folder: Path) -> Loaded:
    ensure_torchvision()
    from transformers import AutoModel

    encoder = load_pretrained(AutoModel, folder, f"transformers:{folder}")
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
