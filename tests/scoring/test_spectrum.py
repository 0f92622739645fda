"""Label-free figures do what their definitions say."""

from __future__ import annotations

import numpy as np
import pytest

from panendofm.scoring.features.spectrum import alpha_req, common_share, rankme


def test_rankme_is_the_effective_rank() -> None:
    random = np.random.default_rng(0)
    features = random.standard_normal((500, 40))
    singular = np.linalg.svd(features, compute_uv=False)
    share = singular / singular.sum()
    assert rankme(features.astype(np.float32)) == pytest.approx(np.exp(-(share * np.log(share)).sum()), rel=1e-5)
    assert rankme(np.ones((50, 40))) == pytest.approx(1, abs=1e-4)
    assert rankme(np.linalg.qr(random.standard_normal((100, 40)))[0]) == pytest.approx(40)
    assert rankme(np.zeros((10, 4))) == 0


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_alpha_req_finds_the_exponent(alpha: float) -> None:
    random = np.random.default_rng(0)
    basis = np.linalg.qr(random.standard_normal((400, 200)) - 0.0)[0]
    basis = np.linalg.qr(basis - basis.mean(axis=0))[0]  # centered and orthonormal
    features = basis * np.arange(1, 201) ** (-alpha / 2) + 3.0
    assert alpha_req(features) == pytest.approx(alpha, rel=1e-3)
    assert alpha_req(np.ones((20, 4))) is None


def test_the_common_share_is_the_length_of_the_mean() -> None:
    features = np.random.default_rng(0).standard_normal((20_000, 8))
    features -= features.mean(axis=0)
    assert common_share(features) == pytest.approx(0, abs=1e-9)
    shifted = features + np.array([3.0, 4, 0, 0, 0, 0, 0, 0])
    assert common_share(shifted) == pytest.approx(5 / np.linalg.norm(shifted, axis=1).mean())
    assert common_share(np.full((5, 3), 2.0, np.float32)) == pytest.approx(1)
    assert common_share(np.zeros((4, 3))) == 0
