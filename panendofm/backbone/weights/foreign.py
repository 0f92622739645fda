"""Key maps between the official DINOv2 weights and those of timm and transformers, in both directions.

All functions map a state dict {name: tensor} to another one. The official names are the common ground.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import torch
from torch import Tensor

from panendofm.backbone.config import ViTConfig
from panendofm.runtime.errors import UserError

State = dict[str, Tensor]
Format = Literal["official", "timm", "transformers"]

_HEADS_OF_SIZE = {32: 4}  # the test size; in all other sizes a head is 64 wide
_CHUNKED_BLOCK = re.compile(r"blocks\.(\d+)\.(\d+)\.(.+)")


def format_of(state: State) -> Format | None:
    """Whose names these are; None when they belong to no DINOv2 backbone."""
    if "embeddings.cls_token" in state:
        return "transformers"
    if "cls_token" not in state or "pos_embed" not in state or "patch_embed.proj.weight" not in state:
        return None
    # timm keeps no mask token, and calls the registers reg_token.
    return "timm" if "mask_token" not in state else "official"


def to_official(state: State) -> State:
    """Official names for a state dict of any known format."""
    names = format_of(state)
    if names == "transformers":
        return _from_transformers(state)
    if names == "timm":
        return _from_timm(state)
    return unchunked(state)


def unchunked(state: State) -> State:
    """Undo the reference's chunked blocks: `blocks.<chunk>.<i>.…` → `blocks.<i>.…` (i counts through all chunks)."""
    flat: State = {}
    for name, tensor in state.items():
        match = _CHUNKED_BLOCK.fullmatch(name)
        new = f"blocks.{match.group(2)}.{match.group(3)}" if match else name
        if new in flat:
            raise UserError(f"the chunked block keys are ambiguous: two tensors would be called '{new}'.")
        flat[new] = tensor
    return flat


def config_of(state: State, heads: int | None = None) -> ViTConfig:
    """Sizes of a backbone, read off the shapes of its official state dict; only the heads leave no trace in them."""
    width = state["cls_token"].shape[-1]
    patch_px = state["patch_embed.proj.weight"].shape[-1]
    positions = state["pos_embed"].shape[1] - 1
    grid = round(positions**0.5)
    if grid * grid != positions:
        raise UserError(f"pos_embed holds {positions} patch positions, which is not a square grid.")
    indices = [int(name.split(".")[1]) for name in state if re.match(r"blocks\.\d+\.", name)]
    # Before anything of that depth is built: a name may claim any number.
    if len(set(indices)) != max(indices, default=-1) + 1:
        absent = next(i for i in range(len(set(indices)) + 1) if i not in set(indices))
        raise UserError(f"the tensors of block {absent} are missing, although there is a block {max(indices)}.")
    registers = state["register_tokens"].shape[1] if "register_tokens" in state else 0
    ffn: Literal["mlp", "swiglu"] = "swiglu" if "blocks.0.mlp.w12.weight" in state else "mlp"
    heads = heads or _HEADS_OF_SIZE.get(width, width // 64)
    if not indices or heads == 0 or width % heads:
        raise UserError(f"the number of heads can't be told from the width {width}; name the architecture.")
    return ViTConfig(
        width=width,
        depth=max(indices) + 1,
        heads=heads,
        patch_px=patch_px,
        image_px=grid * patch_px,
        mlp_ratio=_mlp_ratio(state, width, ffn),
        ffn=ffn,
        registers=registers,
        position_offset=0.0 if registers else 0.1,
        position_antialias=bool(registers),
    )


def _mlp_ratio(state: State, width: int, ffn: Literal["mlp", "swiglu"]) -> float:
    if ffn == "mlp":
        first = state.get("blocks.0.mlp.fc1.weight")
        return first.shape[0] / width if first is not None else 4.0
    hidden = state["blocks.0.mlp.w12.weight"].shape[0] // 2
    # The hidden width was rounded up: take the usual ratio where it fits, else the one that gives this width.
    usual = ViTConfig(width=width, depth=1, heads=1, patch_px=1, image_px=1, ffn="swiglu")
    return usual.mlp_ratio if usual.hidden_width == hidden else 1.5 * hidden / width


# ------------------------------------------------------------------------------------------------------------- timm


def timm_name(config: ViTConfig) -> str:
    """The timm model to build on; sizes that timm has no name for are given by `timm_arguments`."""
    sizes = {384: "small", 768: "base", 1024: "large"}
    size = "giant" if config.ffn == "swiglu" else sizes.get(config.width, "small")
    return f"vit_{size}_patch14{'_reg4' if config.registers else ''}_dinov2"


def timm_arguments(config: ViTConfig) -> dict[str, Any]:
    """Arguments for `timm.create_model` beside the name: every size is spelled out."""
    arguments: dict[str, Any] = {
        "embed_dim": config.width,
        "depth": config.depth,
        "num_heads": config.heads,
        "patch_size": config.patch_px,
        "img_size": config.image_px,
        # timm gives SwiGLU's two input matrices together as the hidden width.
        "mlp_ratio": (1 if config.ffn == "mlp" else 2) * config.hidden_width / config.width,
        "init_values": config.layerscale_init,
        "num_classes": 0,
        "dynamic_img_size": True,
    }
    if config.registers:
        arguments["reg_tokens"] = config.registers
    return arguments


def to_timm(state: State) -> State:
    """timm's names. It has no mask token, and with registers it keeps the cls token's position inside the cls token."""
    new = {name.replace(".mlp.w12.", ".mlp.fc1.").replace(".mlp.w3.", ".mlp.fc2."): t for name, t in state.items()}
    del new["mask_token"]
    if "register_tokens" in new:
        new["reg_token"] = new.pop("register_tokens")
        new["cls_token"] = new["cls_token"] + new["pos_embed"][:, :1]
        new["pos_embed"] = new["pos_embed"][:, 1:].clone()
    return new


def _from_timm(state: State) -> State:
    new = dict(state)
    if "reg_token" in new:
        # The cls token's position can't be told from the cls token any more: it stays there, and its position is zero.
        new["register_tokens"] = new.pop("reg_token")
        new["pos_embed"] = torch.cat([torch.zeros_like(new["cls_token"]), new["pos_embed"]], dim=1)
    first, second = new.get("blocks.0.mlp.fc1.weight"), new.get("blocks.0.mlp.fc2.weight")
    if first is not None and second is not None and first.shape[0] == 2 * second.shape[1]:  # SwiGLU
        new = {name.replace(".mlp.fc1.", ".mlp.w12.").replace(".mlp.fc2.", ".mlp.w3."): t for name, t in new.items()}
    new["mask_token"] = torch.zeros_like(new["cls_token"][0])
    return new


# ----------------------------------------------------------------------------------------------------- transformers

_OUTSIDE_BLOCKS = {
    "cls_token": "embeddings.cls_token",
    "mask_token": "embeddings.mask_token",
    "register_tokens": "embeddings.register_tokens",
    "pos_embed": "embeddings.position_embeddings",
    "patch_embed.proj.weight": "embeddings.patch_embeddings.projection.weight",
    "patch_embed.proj.bias": "embeddings.patch_embeddings.projection.bias",
    "norm.weight": "layernorm.weight",
    "norm.bias": "layernorm.bias",
}
_INSIDE_BLOCKS = {
    "attn.proj": "attention.output.dense",
    "ls1.gamma": "layer_scale1.lambda1",
    "ls2.gamma": "layer_scale2.lambda1",
    "mlp.w12": "mlp.weights_in",
    "mlp.w3": "mlp.weights_out",
}
_QKV = ("query", "key", "value")
# transformers 5 has other names in memory than in its files; both are read, the file's names are written.
_IN_MEMORY = {
    "attention.q_proj": "attention.attention.query",
    "attention.k_proj": "attention.attention.key",
    "attention.v_proj": "attention.attention.value",
    "attention.o_proj": "attention.output.dense",
    "mlp.down_proj": "mlp.weights_out",
}


def transformers_config(config: ViTConfig) -> dict[str, Any]:
    """Content of config.json."""
    kind = "Dinov2WithRegisters" if config.registers else "Dinov2"
    values: dict[str, Any] = {
        "architectures": [f"{kind}Model"],
        "model_type": "dinov2_with_registers" if config.registers else "dinov2",
        "hidden_size": config.width,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "mlp_ratio": int(config.mlp_ratio) if config.mlp_ratio == int(config.mlp_ratio) else config.mlp_ratio,
        "patch_size": config.patch_px,
        "image_size": config.image_px,
        "use_swiglu_ffn": config.ffn == "swiglu",
        "layerscale_value": config.layerscale_init,
        "layer_norm_eps": 1e-6,
        "hidden_act": "gelu",
        "qkv_bias": True,
        "num_channels": 3,
        "drop_path_rate": 0.0,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    if config.registers:
        values["num_register_tokens"] = config.registers
    return values


def to_transformers(state: State) -> State:
    new: State = {}
    for name, tensor in state.items():
        if name in _OUTSIDE_BLOCKS:
            new[_OUTSIDE_BLOCKS[name]] = tensor
            continue
        _, index, rest = name.split(".", 2)
        layer = f"encoder.layer.{index}"
        if rest.startswith("attn.qkv."):
            for part, third in zip(_QKV, tensor.chunk(3), strict=True):
                new[f"{layer}.attention.attention.{part}.{rest.rsplit('.', 1)[1]}"] = third.clone()
            continue
        for ours, theirs in _INSIDE_BLOCKS.items():
            rest = rest.replace(ours, theirs)
        new[f"{layer}.{rest}"] = tensor
    return new


def _from_transformers(state: State) -> State:
    outside = {theirs: ours for ours, theirs in _OUTSIDE_BLOCKS.items()}
    new: State = {}
    joined: dict[str, dict[str, Tensor]] = {}  # halves and thirds of one official tensor
    for name, tensor in state.items():
        if name in outside or not name.startswith("encoder.layer."):
            new[outside.get(name, name)] = tensor
            continue
        for in_memory, in_file in _IN_MEMORY.items():
            name = name.replace(in_memory, in_file)
        _, _, index, rest = name.split(".", 3)
        for ours, theirs in _INSIDE_BLOCKS.items():
            rest = rest.replace(theirs, ours)
        layer, _, kind = rest.rpartition(".")
        part = layer.rpartition(".")[2]
        if part in _QKV:
            joined.setdefault(f"blocks.{index}.attn.qkv.{kind}", {})[part] = tensor
        elif part in ("gate_proj", "up_proj"):
            joined.setdefault(f"blocks.{index}.mlp.w12.{kind}", {})[part] = tensor
        else:
            new[f"blocks.{index}.{rest}"] = tensor
    for name, parts in joined.items():
        order = _QKV if ".attn." in name else ("gate_proj", "up_proj")
        new[name] = torch.cat([parts[p] for p in order if p in parts])
    if "mask_token" not in new:  # a transformers option leaves it out
        new["mask_token"] = torch.zeros_like(new["cls_token"][0])
    return new
