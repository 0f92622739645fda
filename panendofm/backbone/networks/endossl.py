"""EndoSSL on single images: the Flax checkpoint that its authors publish, as a PyTorch network.

Beside a TensorFlow SavedModel each published folder holds `checkpoint_0`, a training state in Flax's MessagePack form.
Its entry `teacher_weights` is a ViT/16 in Scenic's names: positions for the patches only, separate query, key and
value, kernels stored as [in, out]. Images go in squashed to the square, with values from 0 to 255.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from panendofm.backbone.networks.network import Description, Loaded, Outputs, Source, values_checksum
from panendofm.backbone.networks.timm_models import maps_of_timm
from panendofm.backbone.preprocessing import Preprocessing
from panendofm.backbone.torchvision_shim import ensure_torchvision
from panendofm.backbone.weights.fit import refuse_misfit
from panendofm.runtime.errors import UserError, naming_path

NORM_EPSILON = 1e-6  # Flax's default
_TEACHER = "teacher_weights"
# Flax writes an array as extension 1: (shape, name of its type, bytes). Arrays of 1 GB and more come in chunks.
_ARRAY_CODE = 1
_CHUNKS = "__msgpack_chunked_array__"

Arrays = dict[str, NDArray[np.float32]]


def read_flax_teacher(path: Path) -> Arrays:
    """The teacher's arrays by their path in the tree, such as `encoderblock_0/LayerNorm_0/scale`."""
    if (path / "saved_model.pb").is_file() or path.name == "saved_model.pb":
        raise UserError(f"{path} is a TensorFlow SavedModel; name the Flax file beside it (checkpoint_0) instead.")
    try:
        with naming_path("read", path):
            content = msgpack.unpackb(path.read_bytes(), ext_hook=_array, strict_map_key=False)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise UserError(f"cannot read {path}: it is no Flax checkpoint (MessagePack), or it is damaged.") from error
    tree = content.get(_TEACHER) if isinstance(content, dict) else None
    if not isinstance(tree, dict):
        raise UserError(f"{path}: it has no entry '{_TEACHER}'; name the checkpoint_0 of an EndoSSL folder.")
    return _flat(tree, path)


def _array(code: int, data: bytes) -> Any:
    if code != _ARRAY_CODE:
        return None  # scalars and the like: nothing of the network
    shape, kind, content = msgpack.unpackb(data)
    return np.frombuffer(content, np.dtype(kind)).reshape(shape)


def _flat(tree: dict[str, Any], path: Path, prefix: str = "") -> Arrays:
    arrays: Arrays = {}
    for name, value in tree.items():
        if isinstance(value, dict) and _CHUNKS in value:
            raise UserError(f"{path}: '{prefix}{name}' is stored in chunks, which no ViT up to ViT-L needs.")
        if isinstance(value, dict):
            arrays |= _flat(value, path, f"{prefix}{name}/")
        elif isinstance(value, np.ndarray):
            arrays[f"{prefix}{name}"] = value.astype(np.float32)
    return arrays


class EndoSSL(nn.Module):
    """Images [B, 3, H, W] with values from 0 to 255 → the cls token [B, D] after the norm."""

    def __init__(self, width: int, depth: int, heads: int, hidden: int, patch_px: int, grid: int) -> None:
        super().__init__()
        ensure_torchvision()
        from timm.models.vision_transformer import VisionTransformer

        self.vit = VisionTransformer(
            img_size=grid * patch_px,
            patch_size=patch_px,
            embed_dim=width,
            depth=depth,
            num_heads=heads,
            mlp_ratio=hidden / width,
            num_classes=0,
            global_pool="token",
            no_embed_class=True,  # no position for the cls token
            norm_layer=partial(nn.LayerNorm, eps=NORM_EPSILON),
            act_layer="gelu_tanh",  # Flax's gelu
        )

    def forward(self, images: Tensor) -> Tensor:
        cls: Tensor = self.vit(images)
        return cls

    def feature_maps(self, images: Tensor, last: int = 1) -> list[Tensor]:
        return maps_of_timm(self.vit, images, last)


def endossl_from(arrays: Arrays, source: str) -> EndoSSL:
    """The network of a teacher's arrays; what a head has beside it is left out, anything missing is an error."""

    used: set[str] = set()

    def get(name: str, dimensions: int) -> NDArray[np.float32]:
        used.add(name)
        if name not in arrays or arrays[name].ndim != dimensions:
            raise UserError(f"{source}: the array '{name}' is missing or has not {dimensions} dimensions.")
        return arrays[name]

    kernel = get("ToTokenSequence_0/embedding/kernel", 4)  # [patch, patch, 3, D]
    positions = get("ToTokenSequence_0/posembed_input", 4)  # [1, grid, grid, D]
    query = get("encoderblock_0/MultiHeadDotProductAttention_0/query/kernel", 3)  # [D, heads, D / heads]
    hidden = get("encoderblock_0/MlpBlock_0/Dense_0/kernel", 2).shape[1]
    if kernel.shape[0] != kernel.shape[1] or positions.shape[1] != positions.shape[2]:
        raise UserError(f"{source}: patches and positions must be square, not {kernel.shape} and {positions.shape}.")
    blocks = {int(m.group(1)) for name in arrays if (m := re.match(r"encoderblock_(\d{1,6})/", name))}
    depth = len(blocks)
    if depth != 1 + max(blocks):  # before anything of that depth is built: a name may claim any number
        raise UserError(f"{source}: there is a block {max(blocks)}, but not all blocks before it.")
    width, heads = int(kernel.shape[3]), int(query.shape[1])
    model = EndoSSL(width, depth, heads, int(hidden), int(kernel.shape[0]), int(positions.shape[1]))
    state = {
        "cls_token": get("ToTokenSequence_0/cls", 3),
        "pos_embed": positions.reshape(1, -1, width),
        "patch_embed.proj.weight": kernel.transpose(3, 2, 0, 1),
        "patch_embed.proj.bias": get("ToTokenSequence_0/embedding/bias", 1),
        "norm.weight": get("encoder_norm/scale", 1),
        "norm.bias": get("encoder_norm/bias", 1),
    }
    for number in range(depth):
        flax, timm = f"encoderblock_{number}", f"blocks.{number}"
        attention = f"{flax}/MultiHeadDotProductAttention_0"
        thirds = ("query", "key", "value")
        state |= {
            f"{timm}.norm1.weight": get(f"{flax}/LayerNorm_0/scale", 1),
            f"{timm}.norm1.bias": get(f"{flax}/LayerNorm_0/bias", 1),
            f"{timm}.attn.qkv.weight": np.concatenate(
                [get(f"{attention}/{third}/kernel", 3).reshape(width, -1).T for third in thirds]
            ),
            f"{timm}.attn.qkv.bias": np.concatenate([get(f"{attention}/{t}/bias", 2).reshape(-1) for t in thirds]),
            f"{timm}.attn.proj.weight": get(f"{attention}/out/kernel", 3).reshape(-1, width).T,
            f"{timm}.attn.proj.bias": get(f"{attention}/out/bias", 1),
            f"{timm}.norm2.weight": get(f"{flax}/LayerNorm_1/scale", 1),
            f"{timm}.norm2.bias": get(f"{flax}/LayerNorm_1/bias", 1),
        }
        for theirs, ours in (("Dense_0", "fc1"), ("Dense_1", "fc2")):
            state[f"{timm}.mlp.{ours}.weight"] = get(f"{flax}/MlpBlock_0/{theirs}/kernel", 2).T
            state[f"{timm}.mlp.{ours}.bias"] = get(f"{flax}/MlpBlock_0/{theirs}/bias", 1)
    unexpected = [n for n in arrays if n not in used and re.match("encoderblock_|ToTokenSequence_|encoder_norm/", n)]
    refuse_misfit(source, (), unexpected=unexpected)
    try:
        model.vit.load_state_dict({name: torch.tensor(np.ascontiguousarray(value)) for name, value in state.items()})
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip().rstrip(".")
        raise UserError(f"{source}: its arrays don't make up a vision transformer ({reason}).") from error
    return model.eval()


def endossl_source(rest: str) -> Source:
    """`endossl:FILE`. All published folders call the file alike: the folder tells the networks apart."""
    path = Path(rest)
    if not path.exists():
        raise UserError(f"endossl:{rest}: the file {path} does not exist; check the path.")
    return Source(path.resolve().parent.name, partial(_read, path), kind="endossl", files=path)


def _read(path: Path) -> Loaded:
    model = endossl_from(read_flax_teacher(path), str(path))
    side = int(model.vit.patch_embed.img_size[0])
    one = 1 / 255  # values from 0 to 255, as the authors feed them
    preprocessing = Preprocessing(side, side, "bilinear", (0.0, 0.0, 0.0), (one, one, one), squash=True)
    outputs = Outputs(maps=len(model.vit.blocks))
    return Loaded(model, Description("endossl", values_checksum("endossl", model), preprocessing, outputs, "endossl"))
