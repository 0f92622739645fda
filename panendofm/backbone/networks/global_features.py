"""`global-features`: descriptors from before deep learning. A baseline that knows colors, textures and edges.

Four blocks, each of length 1, so that none outweighs the others:

- color layout (MPEG-7): the lowest frequencies of an 8 × 8 image in Y, Cb and Cr;
- colors: a histogram of 4 × 4 × 4 colors;
- texture (Tamura, Mori and Yamawaki 1978): coarseness, contrast, and a histogram of edge directions;
- edges (pyramid of oriented gradients, Bosch, Zisserman and Munoz 2007): 8 directions in 1, 4, 16 and 64 cells.
"""

from __future__ import annotations

import hashlib
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from panendofm.backbone.networks.network import Description, Loaded, Outputs, Source
from panendofm.backbone.preprocessing import Preprocessing

_VERSION = 1  # change it with the numbers: features are kept by it
_SIDE_PX = 224
_LAYOUT_CELLS = 8
_COEFFICIENTS = (21, 6, 6)  # of Y, Cb, Cr
_LEVELS = 4  # steps of a color
_DIRECTIONS = 8  # of an edge, over half a turn
_TAMURA_DIRECTIONS = 16
_WINDOWS = 5  # 2, 4 … 32 pixels
_CELLS = (1, 2, 4, 8)
# BT.601: what JPEG and MPEG-7 mean by YCbCr.
_YCBCR = ((0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))


class GlobalFeatures(nn.Module):
    """Images in [0, 1] [B, 3, H, W] → [B, 33 + 64 + 18 + 680]."""

    def forward(self, images: Tensor) -> Tensor:
        gray = luminance(images)
        edges = gradients(gray)
        blocks = (color_layout(images), color_histogram(images), tamura(gray, edges), edge_pyramid(edges))
        return torch.cat([F.normalize(block, dim=1) for block in blocks], dim=1)

    def feature_maps(self, images: Tensor, last: int = 1) -> list[Tensor]:
        """[B, 3 + 8, 16, 16]: the mean color and the directions of edges of each field."""
        colors = F.adaptive_avg_pool2d(images, 16)
        cells = _cells(gradients(luminance(images)), 16)  # [B, 8, 16, 16]
        return [torch.cat([colors, F.normalize(cells, dim=1)], dim=1)]


def luminance(images: Tensor) -> Tensor:
    """[B, 3, H, W] → [B, 1, H, W]"""
    weights = images.new_tensor(_YCBCR[0])
    return torch.einsum("bchw,c->bhw", images, weights)[:, None]


def color_layout(images: Tensor) -> Tensor:
    """[B, 33]: the first coefficients of a cosine transform, in the zigzag order of JPEG."""
    small = F.adaptive_avg_pool2d(images, _LAYOUT_CELLS)
    planes = torch.einsum("bchw,dc->bdhw", small, images.new_tensor(_YCBCR))
    basis = cosine_basis(_LAYOUT_CELLS).to(images)
    frequencies = basis @ planes @ basis.T  # [B, 3, 8, 8]
    order = zigzag(_LAYOUT_CELLS)
    rows = frequencies.flatten(2)[:, :, order]  # [B, 3, 64]
    return torch.cat([rows[:, plane, :count] for plane, count in enumerate(_COEFFICIENTS)], dim=1)


def cosine_basis(size: int) -> Tensor:
    """The orthonormal basis of the discrete cosine transform (II) [size, size]."""
    place = torch.arange(size, dtype=torch.float64)
    basis = torch.cos(math.pi / size * (place[None] + 0.5) * place[:, None]) * math.sqrt(2 / size)
    basis[0] /= math.sqrt(2)
    return basis


def zigzag(size: int) -> list[int]:
    """Cells by rising diagonal, every other one upward."""
    cells = [(row, column) for row in range(size) for column in range(size)]
    cells.sort(key=lambda cell: (sum(cell), cell[0] if sum(cell) % 2 else cell[1]))
    return [row * size + column for row, column in cells]


def color_histogram(images: Tensor) -> Tensor:
    """[B, 64]: the root of each color's share, which tempers the frequent ones."""
    steps = (images * _LEVELS).long().clamp(0, _LEVELS - 1)  # [B, 3, H, W]
    color = (steps[:, 0] * _LEVELS + steps[:, 1]) * _LEVELS + steps[:, 2]
    pixels = images.new_ones(color.shape)
    return (_sums(color, pixels, _LEVELS**3) / color[0].numel()).sqrt()


def _sums(bins: Tensor, weights: Tensor, count: int) -> Tensor:
    """Weights [B, …] added up by bin [B, count]."""
    return weights.new_zeros(len(bins), count).scatter_add_(1, bins.flatten(1), weights.flatten(1))


def gradients(gray: Tensor) -> Tensor:
    """[B, 2, H, W]: along x and y, by Sobel's filters, edges repeated."""
    sobel = gray.new_tensor([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    kernels = torch.stack([sobel, sobel.T])[:, None]  # [2, 1, 3, 3]
    return F.conv2d(F.pad(gray, [1] * 4, mode="replicate"), kernels)


def directions(edges: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """The bin of each pixel's direction over half a turn, and its strength, both [B, H, W]."""
    along_x, along_y = edges.unbind(1)
    angle = torch.atan2(along_y, along_x).remainder(math.pi) / math.pi  # [0, 1]
    return (angle * bins).long().clamp(0, bins - 1), edges.norm(dim=1)


def _cells(edges: Tensor, cells: int) -> Tensor:
    """Strength by direction in each cell [B, 8, cells, cells]."""
    number, strength = directions(edges, _DIRECTIONS)
    height, width = number.shape[1:]
    row = torch.arange(height, device=edges.device)[:, None] * cells // height
    column = torch.arange(width, device=edges.device)[None] * cells // width
    place = (number * cells + row) * cells + column  # [B, H, W]
    return _sums(place, strength, _DIRECTIONS * cells * cells).view(-1, _DIRECTIONS, cells, cells)


def edge_pyramid(edges: Tensor) -> Tensor:
    """[B, 680]: each level counts as much as the others."""
    finest = _cells(edges, _CELLS[-1])
    levels = [finest.unfold(2, _CELLS[-1] // n, _CELLS[-1] // n).sum(-1) for n in _CELLS]  # rows joined
    levels = [
        level.unfold(3, _CELLS[-1] // n, _CELLS[-1] // n).sum(-1) for level, n in zip(levels, _CELLS, strict=True)
    ]
    return torch.cat([F.normalize(level.flatten(1), dim=1) for level in levels], dim=1)


def tamura(gray: Tensor, edges: Tensor) -> Tensor:
    """[B, 18]: coarseness and contrast from 0 to 1, and 16 directions of the clear edges."""
    number, strength = directions(edges, _TAMURA_DIRECTIONS)
    clear = strength * (strength > strength.flatten(1).mean(dim=1)[:, None, None])
    histogram = F.normalize(_sums(number, clear, _TAMURA_DIRECTIONS), dim=1)
    return torch.cat([coarseness(gray), contrast(gray), histogram], dim=1)


def contrast(gray: Tensor) -> Tensor:
    """[B, 1]: the spread over the fourth root of the kurtosis."""
    values = gray.flatten(1)
    spread = values - values.mean(dim=1, keepdim=True)
    variance = spread.square().mean(dim=1, keepdim=True)
    kurtosis = spread.pow(4).mean(dim=1, keepdim=True) / variance.square().clamp_min(1e-12)
    return variance.sqrt() / kurtosis.clamp_min(1e-12).pow(0.25)


def coarseness(gray: Tensor) -> Tensor:
    """[B, 1]: the mean over pixels of the window whose two neighbors differ most, as a share of the largest."""
    best = neighbor_differences(gray).argmax(dim=1)  # [B, H, W], the finest of equals
    return (2.0 ** (best + 1 - _WINDOWS)).flatten(1).mean(dim=1, keepdim=True).to(gray)


def neighbor_differences(gray: Tensor) -> Tensor:
    """[B, 5, H, W]: for windows of 2 to 32 pixels, how much those on either side of a pixel differ."""
    answers = []
    for power in range(1, _WINDOWS + 1):
        width = 2**power
        half = width // 2
        padded = F.pad(gray, [half] * 4, mode="replicate")
        padded = F.pad(padded, [half, half - 1] * 2, mode="replicate")
        wide = _window_means(padded, width)  # [B, 1, H + width, W + width]
        across = (wide[..., half:-half, width:] - wide[..., half:-half, :-width]).abs()
        down = (wide[..., width:, half:-half] - wide[..., :-width, half:-half]).abs()
        answers.append(torch.maximum(across, down))
    return torch.cat(answers, dim=1)


def _window_means(values: Tensor, width: int) -> Tensor:
    """Means of all windows, from sums over everything above and to the left: as fast for wide ones."""
    sums = F.pad(values.double().cumsum(2).cumsum(3), [1, 0, 1, 0])
    corners = sums[..., width:, width:] - sums[..., :-width, width:] - sums[..., width:, :-width]
    return ((corners + sums[..., :-width, :-width]) / width**2).to(values)


def global_features_source() -> Source:
    return Source("global-features", _read, baseline=True)


def _read() -> Loaded:
    checksum = hashlib.sha256(f"global features {_VERSION}, {_SIDE_PX} pixels".encode()).hexdigest()
    # The whole image, in its own colors.
    preprocessing = Preprocessing(_SIDE_PX, _SIDE_PX, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), squash=True)
    architecture = "color layout, colors, Tamura textures, edge pyramid"
    return Loaded(GlobalFeatures().eval(), Description(architecture, checksum, preprocessing, Outputs(maps=1)))
