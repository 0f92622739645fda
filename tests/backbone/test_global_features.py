"""Classical global features: each block against OpenCV or its definition, and what it must not notice."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch

from panendofm.backbone.networks import find_network
from panendofm.backbone.networks import global_features as gf

RANDOM = np.random.default_rng(0)


def image(side: int = 64) -> np.ndarray:
    """A smooth image with an edge, RGB in [0, 1]."""
    noise = RANDOM.random((8, 8, 3))
    smooth = cv2.resize(noise, (side, side), interpolation=cv2.INTER_CUBIC).clip(0, 1)
    smooth[:, : side // 3] *= 0.3
    return smooth.astype(np.float32)


def batch(*images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).contiguous()


def test_color_layout_is_opencvs_transform() -> None:
    pixels = image()
    small = cv2.resize(pixels, (8, 8), interpolation=cv2.INTER_AREA).astype(np.float64)
    y = small @ np.array([0.299, 0.587, 0.114])
    cb, cr = (small[..., 2] - y) / 1.772, (small[..., 0] - y) / 1.402
    expected = []
    zigzag = [(0, 0), (0, 1), (1, 0), (2, 0), (1, 1), (0, 2), (0, 3), (1, 2), (2, 1), (3, 0), (4, 0), (3, 1), (2, 2)]
    found = gf.color_layout(batch(pixels).double())[0].numpy()
    for plane, start, count in ((y, 0, 13), (cb, 21, 6), (cr, 27, 6)):
        frequencies = cv2.dct(plane)
        expected = [frequencies[cell] for cell in zigzag[:count]]
        assert found[start : start + count] == pytest.approx(expected, abs=1e-5)


def test_colors_and_edges_by_hand() -> None:
    pixels = image()
    histogram = np.zeros((4, 4, 4))
    for pixel in pixels.reshape(-1, 3):
        histogram[tuple(np.minimum((pixel * 4).astype(int), 3))] += 1
    found = gf.color_histogram(batch(pixels))[0].numpy()
    assert found == pytest.approx(np.sqrt(histogram.ravel() / histogram.sum()), abs=1e-6)

    gray = (pixels.astype(np.float64) @ np.array([0.299, 0.587, 0.114])).astype(np.float64)
    x, y = (cv2.Sobel(gray, cv2.CV_64F, *d, ksize=3, borderType=cv2.BORDER_REPLICATE) for d in ((1, 0), (0, 1)))
    edges = gf.gradients(gf.luminance(batch(pixels).double()))
    assert np.allclose(edges[0].numpy(), [x, y], atol=1e-6)
    number = np.minimum((np.mod(np.arctan2(y, x), np.pi) / np.pi * 8).astype(int), 7)
    strength = np.hypot(x, y)
    pyramid = []
    for cells in (1, 2, 4, 8):
        side = 64 // cells
        level = np.array(
            [
                [
                    [
                        strength[r * side : (r + 1) * side, c * side : (c + 1) * side][
                            number[r * side : (r + 1) * side, c * side : (c + 1) * side] == d
                        ].sum()
                        for c in range(cells)
                    ]
                    for r in range(cells)
                ]
                for d in range(8)
            ]
        ).ravel()
        pyramid.append(level / np.linalg.norm(level))
    assert gf.edge_pyramid(edges)[0].numpy() == pytest.approx(np.concatenate(pyramid), abs=1e-6)


def test_tamura_tells_textures_apart() -> None:
    rows, columns = np.mgrid[:128, :128]
    drawn = [
        ((columns // width % 2) if way == "across" else (rows // width % 2)).astype(np.float64)
        for width in (2, 16)
        for way in ("across", "down")
    ]
    gray = torch.from_numpy(np.stack(drawn))[:, None]
    fine, _, coarse, _ = gf.coarseness(gray)[:, 0].tolist()
    assert 0 < fine < coarse <= 1
    histograms = gf.tamura(gray, gf.gradients(gray))[:, 2:]
    assert histograms[0].argmax() == 0 and histograms[1].argmax() == 8  # stripes across and down
    values = RANDOM.random((1, 1, 32, 32))
    spread = values - values.mean()
    expected = values.std() / (np.mean(spread**4) / values.var() ** 2) ** 0.25
    assert gf.contrast(torch.from_numpy(values)).item() == pytest.approx(expected, abs=1e-9)


def test_the_word_gives_blocks_of_equal_weight() -> None:
    network = find_network("global-features")
    module = network.load()
    features = module(torch.rand(3, 3, 224, 224))
    assert features.shape == (3, 795) and network.baseline and network.preprocessing.squash
    blocks = torch.split(features, [33, 64, 18, 680], dim=1)
    assert all(torch.allclose(block.norm(dim=1), torch.ones(3), atol=1e-5) for block in blocks)
    alone = torch.cat([module(one[None]) for one in torch.rand(2, 3, 224, 224)])
    assert torch.isfinite(alone).all() and torch.isfinite(module(torch.zeros(1, 3, 224, 224))).all()
    assert module.feature_maps(torch.rand(2, 3, 224, 224))[0].shape == (2, 11, 16, 16)


def test_coarseness_by_its_definition() -> None:
    """Pixel by pixel: the window whose neighbors on either side differ most."""
    side = 24
    gray = image(side)[..., 0].astype(np.float64)

    def mean(y: int, x: int, width: int) -> float:
        rows = np.clip(np.arange(y - width // 2, y + width // 2), 0, side - 1)
        columns = np.clip(np.arange(x - width // 2, x + width // 2), 0, side - 1)
        return float(gray[np.ix_(rows, columns)].mean())

    chosen = []
    for y in range(8, side - 8):
        for x in range(8, side - 8):
            differences = [
                max(
                    abs(mean(y, x + half, 2 * half) - mean(y, x - half, 2 * half)),
                    abs(mean(y + half, x, 2 * half) - mean(y - half, x, 2 * half)),
                )
                for half in (1, 2, 4)
            ]
            chosen.append(differences)
    expected = np.array(chosen)
    tensor = torch.from_numpy(gray)[None, None]
    found = gf.neighbor_differences(tensor)[0, :3, 8:-8, 8:-8].flatten(1).T.numpy()
    assert found == pytest.approx(expected, abs=1e-9)
