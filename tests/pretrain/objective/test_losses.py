"""Losses and targets as formulas, beside the golden steps: written out slowly here, compared with the fast code."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from panendofm.runtime.errors import UserError
from pretrain.objective import prototype_loss as module
from pretrain.objective.anchors import gram_loss
from pretrain.objective.config import HeadConfig
from pretrain.objective.heads import ProjectionHead
from pretrain.objective.losses import dino_global, dino_local, ibot, koleo_loss
from pretrain.objective.prototype_loss import LossTargets, prototype_loss
from pretrain.objective.targets import Centering, SinkhornKnopp


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def loss_of(scores: Tensor, *parts: LossTargets) -> Tensor:
    """The loss of given scores [..., K]: with unit vectors as prototypes the features are the scores."""
    K = scores.shape[-1]
    return prototype_loss(scores.reshape(-1, K), torch.eye(K), parts)[0]


def cross_entropy(targets: Tensor, scores: Tensor) -> Tensor:
    """By definition: mean over rows of −Σ_k t_k · log softmax(s / 0.1)_k."""
    return -(targets * torch.log_softmax(scores / 0.1, dim=-1)).sum(-1).mean()


def textbook_sinkhorn(scores: Tensor, temperature: float) -> Tensor:
    """With every constant of the published form, in double precision."""
    q = torch.exp(scores.double() / temperature).T  # [K, B]
    K, B = q.shape
    q = q / q.sum()
    for _ in range(3):
        q = q / q.sum(dim=1, keepdim=True) / K
        q = q / q.sum(dim=0, keepdim=True) / B
    return (q * B).T.float()


def test_sinkhorn_is_the_textbooks() -> None:
    scores = random(12, 30).tanh()
    expected = textbook_sinkhorn(scores, 0.05)
    torch.testing.assert_close(SinkhornKnopp()(scores, 0.05), expected, rtol=2e-5, atol=1e-7)


def test_sinkhorn_in_pieces_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = random(12, 30).tanh()
    whole = SinkhornKnopp()(scores.clone(), 0.05)
    monkeypatch.setattr(module, "CHUNK", 50)
    torch.testing.assert_close(SinkhornKnopp()(scores, 0.05), whole)


def test_scores_for_targets_are_whole_and_fp32_though_made_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    x, prototypes = random(12, 8), random(30, 8, seed=1)
    for chunk in (1 << 23, 70, 1):
        monkeypatch.setattr(module, "CHUNK", chunk)
        torch.testing.assert_close(module.prototype_scores(x, prototypes), x @ prototypes.T)
    with torch.autocast("cpu", torch.bfloat16):
        assert module.prototype_scores(x, prototypes).dtype == torch.float32
    assert module.prototype_scores(x[:0], prototypes).shape == (0, 30)


def test_a_huge_batch_comes_in_few_chunks() -> None:
    """A distillation's patches of 128 images: a thousand chunks of the smallest size would keep the host busy."""
    rows, prototypes = 65_536, 131_072
    assert rows * prototypes / module.chunk_size(rows * prototypes) <= module.MOST_CHUNKS
    assert module.chunk_size(100) == module.CHUNK


@pytest.mark.parametrize("scale", [1e2, 1e4, 1e6])
def test_targets_stay_finite_with_very_large_logits(scale: float) -> None:
    scores = random(12, 30) * scale
    centering = Centering(30)
    for targets in (SinkhornKnopp()(scores.clone(), 0.04), centering(scores, 0.04)):
        assert torch.isfinite(targets).all()
        torch.testing.assert_close(targets.sum(dim=1), torch.ones(12))
    assert torch.isfinite(loss_of(scores, LossTargets(targets, None, torch.ones(12))))


def test_targets_are_fp32_whatever_comes_in() -> None:
    for make in (SinkhornKnopp(), Centering(30)):
        assert make(random(6, 30).bfloat16(), 0.05).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        against = LossTargets(random(6, 30).softmax(1), None, torch.ones(6))
        assert loss_of(random(6, 30).bfloat16(), against).dtype == torch.float32
        assert koleo_loss(random(6, 30).bfloat16()).dtype == torch.float32
        assert gram_loss(random(2, 6, 30).bfloat16(), random(2, 6, 30).bfloat16()).dtype == torch.float32


def test_no_rows_make_no_targets() -> None:
    assert SinkhornKnopp()(torch.zeros(0, 30), 0.05).shape == (0, 30)
    centering = Centering(30)
    centering(random(4, 30), 0.05)
    before = centering.center.clone()
    assert centering(torch.zeros(0, 30), 0.05).shape == (0, 30)
    assert torch.equal(centering.center, before)


def test_uniform_start_values() -> None:
    """With uniform targets and scores: local = (2L/terms)·ln K, global = (2/terms)·ln K."""
    K, B, L = 64, 4, 8
    targets, terms = torch.full((2, B, K), 1 / K), 2 + 2 * L
    local = loss_of(torch.zeros(L, B, K), dino_local(targets, L, 1.0))
    global_ = loss_of(torch.zeros(2, B, K), dino_global(targets, L, 1.0))
    assert local.item() == pytest.approx(2 * L / terms * math.log(K))
    assert global_.item() == pytest.approx(2 / terms * math.log(K))


def test_dino_losses_are_the_double_sums() -> None:
    K, B, L = 20, 3, 4
    targets = random(2, B, K).softmax(-1)
    local, global_ = random(L, B, K, seed=1), random(2, B, K, seed=2)

    ce, terms = cross_entropy, 2 + 2 * L
    expected_local = sum(ce(targets[g], local[i]) for g in range(2) for i in range(L)) / terms
    expected_global = (ce(targets[1], global_[0]) + ce(targets[0], global_[1])) / terms
    torch.testing.assert_close(loss_of(local, dino_local(targets, L, 1.0)), expected_local)
    torch.testing.assert_close(loss_of(global_, dino_global(targets, L, 1.0)), expected_global)


def test_no_local_crops_and_no_masked_patches_are_zero() -> None:
    prototypes = torch.eye(20, requires_grad=True)
    targets = random(2, 3, 20).softmax(-1)
    loss, by_part = prototype_loss(random(6, 20), prototypes, [dino_global(targets, 0, 1.0), dino_local(targets, 0, 1)])
    assert by_part[1].item() == 0 and loss.item() > 0
    nothing, _ = prototype_loss(torch.zeros(0, 20), prototypes, [ibot(torch.zeros(0, 20), torch.zeros(0), 6, 1.0)])
    nothing.backward()  # still part of the graph: another rank may have masked patches
    assert nothing.item() == 0 and prototypes.grad is not None and not prototypes.grad.any()


@pytest.mark.parametrize("chunk", [1, 70, 1 << 23])
def test_loss_and_gradients_are_those_of_the_whole_scores(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with targets that several rows share, weights that differ, and a factor on the way back."""
    monkeypatch.setattr(module, "CHUNK", chunk)
    B, L, K, D = 3, 2, 30, 8
    targets, patches = random(2, B, K).softmax(-1), random(5, K, seed=1).softmax(-1)
    masked_weights = random(5, seed=2).abs()
    x, prototypes = random(2 * B + L * B + 5, D, seed=3), random(K, D, seed=4)
    whole = [tensor.clone().requires_grad_() for tensor in (x, prototypes)]
    scores = whole[0] @ whole[1].T
    parts = scores.split([2 * B, L * B, 5])
    terms = 2 + 2 * L
    expected = [
        1.5 * 2 / terms * cross_entropy(targets.flip(0).reshape(2 * B, K), parts[0]),
        1.5 * sum(cross_entropy(t, s) for t in targets for s in parts[1].reshape(L, B, K)) / terms,
        -0.5 * ((patches * torch.log_softmax(parts[2] / 0.1, -1)).sum(-1) * masked_weights).sum() / (2 * B),
    ]
    (3 * torch.stack(expected).sum()).backward()
    own = [tensor.clone().requires_grad_() for tensor in (x, prototypes)]
    against = [dino_global(targets, L, 1.5), dino_local(targets, L, 1.5), ibot(patches, masked_weights, 2 * B, 0.5)]
    loss, by_part = prototype_loss(*own, against)
    (3 * loss).backward()
    torch.testing.assert_close(by_part, torch.stack(expected).detach())
    for mine, theirs in zip(own, whole, strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-5, atol=1e-5)


def test_koleo_by_hand() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.1]])
    unit = x / x.norm(dim=1, keepdim=True)
    nearest = [math.dist(unit[0], unit[1]), math.dist(unit[1], unit[2]), math.dist(unit[2], unit[1])]
    assert koleo_loss(x).item() == pytest.approx(-sum(math.log(d) for d in nearest) / 3, rel=1e-6)


def test_koleo_refuses_a_single_image() -> None:
    with pytest.raises(UserError, match="KoLeo needs two images or more"):
        koleo_loss(random(1, 8))


def test_gram_holds_the_geometry_not_the_values() -> None:
    x = random(2, 9, 16)
    rotation = torch.linalg.qr(random(16, 16, seed=3))[0]
    assert gram_loss(x @ rotation, x).item() < 1e-12
    assert gram_loss(3 * x, x).item() < 1e-12
    y = random(2, 9, 16, seed=4)
    differences = []
    for a, b in zip(x, y, strict=True):
        for i in range(9):
            for j in range(9):
                cosine = torch.cosine_similarity
                differences.append((cosine(a[i], a[j], dim=0) - cosine(b[i], b[j], dim=0)).item() ** 2)
    assert gram_loss(x, y).item() == pytest.approx(sum(differences) / len(differences), rel=1e-5)


def test_head_initialization_and_weight_norm() -> None:
    torch.manual_seed(0)
    head = ProjectionHead(32, HeadConfig(prototypes=50, bottleneck=16, layers=3, hidden=256))
    assert torch.equal(head.last_layer.weight_g, torch.ones(50, 1)) and head.last_layer.weight_g.requires_grad
    assert head.mlp[0].weight.std().item() == pytest.approx(0.02, rel=0.1) and not head.mlp[0].bias.any()
    v = head.last_layer.weight_v
    assert v.abs().max() <= 0.25 and v.std().item() == pytest.approx(0.25 / math.sqrt(3), rel=0.1)  # nn.Linear's own
    scores = head(random(7, 32))
    assert scores.shape == (7, 50) and scores.abs().max() <= 1  # cosines at the start
    with torch.no_grad():
        v *= 5  # only the direction of weight_v counts
    torch.testing.assert_close(head(random(7, 32)), scores)
    assert [type(m).__name__ for m in head.mlp] == ["Linear", "GELU", "Linear", "GELU", "Linear"]
