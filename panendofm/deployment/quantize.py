"""A backbone as an int8 graph: weights and inputs of linear layers in 8 bits, all else in float32.

Three things decide whether 8 bits are enough.

- A few channels of a layer's input are much larger than the rest, and one range must hold them all. SmoothQuant (Xiao
  et al., 2023) divides them by a factor and multiplies the weights that they meet by it: the same function, even
  ranges.
- The input of a block's last layer cannot be divided so: a GELU stands before it. Where its largest value is far beyond
  nearly all others (DINOv2's massive activations), the layer stays in float32.
- Outputs stay in float32: residuals grow from block to block.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from torch import Tensor, nn

from panendofm.backbone import VisionTransformer
from panendofm.backbone.release import write_graph
from panendofm.runtime.errors import UserError

_EVENLY = 0.5  # SmoothQuant's exponent: half of the unevenness goes to the weights
_SMALLEST = 1e-5
_QUANTILE = 0.999
# Of each batch, so that the quantile stays cheap.
_VALUES = 100_000


@dataclass
class InputRange:
    """What a linear layer was given over the calibration images."""

    largest: Tensor | None = None  # [D] per channel
    quantiles: list[float] = field(default_factory=list)

    def see(self, x: Tensor) -> None:
        x = x.detach().flatten(0, -2).abs()  # [T, D]
        own = x.amax(dim=0)
        self.largest = own if self.largest is None else torch.maximum(self.largest, own)
        values = x.flatten()
        self.quantiles.append(float(values[:: -(-len(values) // _VALUES)].quantile(_QUANTILE)))

    @property
    def outlier(self) -> float:
        """The largest value over one that nearly all are below."""
        assert self.largest is not None
        return float(self.largest.max()) / max(max(self.quantiles), _SMALLEST)


def write_int8(model: VisionTransformer, batches: Sequence[Tensor], outlier: float, path: Path) -> list[str]:
    """The graph, and the names of layers that stayed in float32. `batches`: calibration images, each [B, 3, H, W]."""
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    if model.config.ffn != "mlp":
        raise UserError(
            f"int8 graphs are made of backbones with an MLP, not of {model.config.ffn}; leave onnx-int8 out."
        )
    even = copy.deepcopy(model).eval()
    ranges = _input_ranges(even, batches)
    kept = [name for name, seen in ranges.items() if name.endswith("fc2") and seen.outlier > outlier]
    _smooth(even, ranges)
    side = batches[0].shape[-1]
    with TemporaryDirectory() as folder:
        plain = Path(folder) / "smoothed.onnx"
        write_graph(even, side, plain)
        nodes = _linear_nodes(plain, len(even.blocks))
        logging.disable(logging.WARNING)  # onnxruntime recommends a preparation that graphs of any size cannot have
        try:
            quantize_static(
                plain,
                path,
                _reader(batches),
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=["MatMul"],
                nodes_to_quantize=[node for name, node in nodes.items() if name not in kept],
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                calibrate_method=CalibrationMethod.MinMax,
                extra_options={"OpTypesToExcludeOutputQuantization": ["MatMul"]},
            )
        finally:
            logging.disable(logging.NOTSET)
    return kept


def linear_layers(model: VisionTransformer) -> dict[str, nn.Linear]:
    """In the order in which they are computed."""
    found: dict[str, nn.Linear] = {}
    for number, block in enumerate(cast(Any, model.blocks)):
        layers = {"qkv": block.attn.qkv, "proj": block.attn.proj, "fc1": block.mlp.fc1, "fc2": block.mlp.fc2}
        found |= {f"block {number} {name}": layer for name, layer in layers.items()}
    return found


@torch.no_grad()
def _input_ranges(model: VisionTransformer, batches: Sequence[Tensor]) -> dict[str, InputRange]:
    ranges: dict[str, InputRange] = {}
    hooks = []
    for name, layer in linear_layers(model).items():
        seen = ranges.setdefault(name, InputRange())
        hooks.append(layer.register_forward_pre_hook(lambda _, inputs, seen=seen: seen.see(inputs[0])))
    for batch in batches:
        model(batch)
    for hook in hooks:
        hook.remove()
    return ranges


@torch.no_grad()
def _smooth(model: VisionTransformer, ranges: dict[str, InputRange]) -> None:
    """Even out the inputs of all layers whose input comes from a norm or from the attention's values."""
    layers = linear_layers(model)
    for number, block in enumerate(cast(Any, model.blocks)):
        for norm, name in ((block.norm1, "qkv"), (block.norm2, "fc1")):
            factor = _factor(layers[f"block {number} {name}"], ranges[f"block {number} {name}"])  # [D]
            norm.weight /= factor
            norm.bias /= factor
            layers[f"block {number} {name}"].weight *= factor
        proj = layers[f"block {number} proj"]
        factor = _factor(proj, ranges[f"block {number} proj"])  # [D]
        width = proj.in_features
        qkv = block.attn.qkv  # rows of q, k and v; attention mixes v's tokens, never its channels
        qkv.weight[2 * width :] /= factor[:, None]
        qkv.bias[2 * width :] /= factor
        proj.weight *= factor


def _factor(layer: nn.Linear, seen: InputRange) -> Tensor:
    assert seen.largest is not None
    of_weights = layer.weight.abs().amax(dim=0).clamp_min(_SMALLEST)  # [D]
    return seen.largest.clamp_min(_SMALLEST) ** _EVENLY / of_weights ** (1 - _EVENLY)


def _linear_nodes(graph: Path, blocks: int) -> dict[str, str]:
    """Layer → its node: the products with stored weights, in the order of computation."""
    import onnx

    model = onnx.load(graph)
    stored = {tensor.name for tensor in model.graph.initializer}
    nodes = [node.name for node in model.graph.node if node.op_type == "MatMul" and node.input[1] in stored]
    names = [f"block {number} {name}" for number in range(blocks) for name in ("qkv", "proj", "fc1", "fc2")]
    return dict(zip(names, nodes, strict=True))


def _reader(batches: Sequence[Tensor]) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left: Iterator[Tensor] = iter(batches)

        def get_next(self) -> dict[str, Any] | None:
            batch = next(self.left, None)
            return None if batch is None else {"images": batch.numpy()}

    return Reader()
