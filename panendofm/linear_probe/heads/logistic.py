"""L2-regularized logistic regression for every class and every strength at once, by L-BFGS.

For each column k (a class at one strength λ) the convex problem

    f(w, b) = 1/n · Σ_i weight[i] · BCE(x_i·w + b, target[i]) + λ/2 · |w|²

is independent of the others, but all share the matrix products with x. Each column has its own step length and stops by
itself. Trying a step length costs no product: logits are linear in it.

Features are strongly correlated, which plain L-BFGS answers with hundreds of iterations. The curvature of f is known up
to the spread of the logits' own weights: about c · xᵀx / n + λ, with c the share of each class times that of the rest.
L-BFGS therefore starts from its inverse, and from the bias that the shares alone would give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from panendofm.linear_probe.heads.schedule import no_progress

_HISTORY = 10
# Rows for each unknown that the curvature is estimated from, and the most unknowns for which its inverse, of cubic
# cost, is worth it. Neither moves the solution.
_CURVATURE_ROWS = 16
_CURVATURE_UNKNOWNS = 2048
_ARMIJO = 1e-4
_HALVINGS = 30


@dataclass(frozen=True)
class Solution:
    weights: Tensor  # [D, K]
    biases: Tensor  # [K]
    objective: Tensor  # [K]
    gradient: Tensor  # [K], largest absolute entry
    iterations: int


def fit_logistic(
    x: Tensor,
    targets: Tensor,
    weights: Tensor,
    strengths: Tensor,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    advance: Callable[[], object] = no_progress,
) -> Solution:
    """x [n, D]; targets and weights [n, K]; strengths [K]. A column stops when its gradient is below the tolerance.

    `advance` is called after every iteration.
    """
    n, depth = x.shape
    basis: Tensor | None = None
    if n < depth:
        # The solution lies in the span of the rows: n orthonormal coordinates are enough, and the penalty is the same.
        basis, triangle = torch.linalg.qr(x.T)  # [D, n], [n, n]
        x = triangle.T
    problem = _Problem(
        torch.cat([x, x.new_ones(n, 1)], dim=1), targets.to(x.dtype), weights.to(x.dtype) / n, strengths.to(x.dtype)
    )
    theta, objective, size, iterations = _minimise(problem, _curvature(problem), tolerance, max_iterations, advance)
    solution = theta[:-1] if basis is None else basis @ theta[:-1]
    return Solution(solution, theta[-1], objective, size, iterations)


@dataclass(frozen=True)
class _Problem:
    x: Tensor  # [n, P], the last column is ones
    y: Tensor  # [n, K]
    w: Tensor  # [n, K]
    strengths: Tensor  # [K]

    def columns(self, keep: Tensor) -> _Problem:
        return _Problem(self.x, self.y[:, keep], self.w[:, keep], self.strengths[keep])

    def loss(self, logits: Tensor) -> Tensor:
        """Without the penalty [K]."""
        return (self.w * (F.softplus(logits) - self.y * logits)).sum(0)

    def gradient(self, theta: Tensor, logits: Tensor) -> Tensor:
        grad = self.x.T @ (self.w * (logits.sigmoid() - self.y))  # [P, K]
        grad[:-1] += self.strengths * theta[:-1]
        return grad

    def shares(self) -> Tensor:
        """Of each column's weight that is positive, away from 0 and 1 [K]; one half where nothing weighs."""
        total = self.w.sum(0)
        return torch.where(total > 0, (self.w * self.y).sum(0) / total.clamp_min(1e-300), 0.5).clamp(1e-4, 1 - 1e-4)


@dataclass(frozen=True)
class _Curvature:
    """The inverse of xᵀx / n + λ / c, one matrix for each λ; c itself is left to L-BFGS's scale."""

    inverses: list[Tensor]  # [P, P]
    which: Tensor  # [K]: the matrix of each column

    def columns(self, keep: Tensor) -> _Curvature:
        return _Curvature(self.inverses, self.which[keep])

    def solve(self, values: Tensor) -> Tensor:
        """[P, K] → [P, K]."""
        result = torch.empty_like(values)
        for number, inverse in enumerate(self.inverses):
            own = self.which == number
            result[:, own] = inverse @ values[:, own]
        return result


def _curvature(problem: _Problem) -> _Curvature:
    n, unknowns = problem.x.shape
    strengths, which = problem.strengths.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    if unknowns > _CURVATURE_UNKNOWNS:
        return _Curvature([torch.eye(unknowns, dtype=problem.x.dtype)], torch.zeros_like(which))
    most = _CURVATURE_ROWS * unknowns
    some = problem.x
    if n > most:  # any rows, but not every so-and-so-many-th: fields of images recur
        some = some[torch.randperm(n, generator=torch.Generator().manual_seed(0))[:most]]
    gram = (some.T @ some / len(some)).double()  # [P, P]
    shares = problem.shares()
    spread = (shares * (1 - shares) * problem.w.sum(0)).double()  # c [K]
    diagonal = gram.diagonal().mean() * 1e-7  # so that it can be inverted, whatever the features
    inverses = []
    for number, strength in enumerate(strengths.double()):
        ridge = torch.full_like(gram[0], float(strength / spread[which == number].mean().clamp_min(1e-12)))
        ridge[-1] = 0.0  # the bias is free
        factor = torch.linalg.cholesky(gram + torch.diag(ridge + diagonal))
        inverses.append(torch.cholesky_inverse(factor).to(problem.x.dtype))
    return _Curvature(inverses, which)


def _minimise(
    problem: _Problem,
    curvature: _Curvature,
    tolerance: float,
    max_iterations: int,
    advance: Callable[[], object],
) -> tuple[Tensor, Tensor, Tensor, int]:
    rows, columns = problem.x.shape[1], problem.y.shape[1]
    final = problem.x.new_zeros(rows, columns)
    final_objective, final_size = problem.x.new_zeros(columns), problem.x.new_zeros(columns)
    where = torch.arange(columns, device=final.device)  # which columns are still being worked on
    theta = final.clone()
    theta[-1] = problem.shares().logit()
    logits = theta[-1].expand(len(problem.x), columns)
    grad = problem.gradient(theta, logits)
    value = problem.loss(logits)
    history: list[tuple[Tensor, Tensor]] = []  # (change of theta, change of gradient)
    for iteration in range(max_iterations + 1):
        size = grad.abs().amax(0)  # [K]
        going_on = size > tolerance
        if iteration == max_iterations:
            going_on = torch.zeros_like(going_on)
        if not bool(going_on.all()):
            done = ~going_on
            final[:, where[done]] = theta[:, done]
            final_objective[where[done]], final_size[where[done]] = value[done], size[done]
            if not bool(going_on.any()):
                break
            problem, curvature, where = problem.columns(going_on), curvature.columns(going_on), where[going_on]
            theta, logits, grad, value = theta[:, going_on], logits[:, going_on], grad[:, going_on], value[going_on]
            history = [(s[:, going_on], y[:, going_on]) for s, y in history]
        direction = _direction(grad, history, curvature)
        moved = problem.x @ direction  # [n, K]
        step, value = _line_search(problem, theta, logits, direction, moved, value, (direction * grad).sum(0))
        theta, logits = theta + step * direction, logits + step * moved
        following = problem.gradient(theta, logits)
        history = [*history[-_HISTORY + 1 :], (step * direction, following - grad)]
        grad = following
        advance()
    return final, final_objective, final_size, iteration


def _direction(grad: Tensor, history: list[tuple[Tensor, Tensor]], curvature: _Curvature) -> Tensor:
    """L-BFGS's two loops, column by column: minus the approximate inverse Hessian times the gradient."""
    if not history:
        first = curvature.solve(grad)
        return -first / first.square().sum(0).sqrt().clamp_min(1.0)
    q = grad.clone()
    kept = []
    for s, y in reversed(history):
        along = (s * y).sum(0)
        # A column that did not move (its step was refused) has nothing to tell.
        rho = torch.where(along > 0, 1 / along.clamp_min(1e-300), 0.0)
        alpha = rho * (s * q).sum(0)
        q -= alpha * y
        kept.append((s, y, rho, alpha))
    s, y, rho, _ = kept[0]
    scale = torch.where(rho > 0, (s * y).sum(0) / (y * curvature.solve(y)).sum(0).clamp_min(1e-300), 1.0)
    q = scale * curvature.solve(q)
    for s, y, rho, alpha in reversed(kept):
        q += s * (alpha - rho * (y * q).sum(0))
    return -q


def _line_search(
    problem: _Problem, theta: Tensor, logits: Tensor, direction: Tensor, moved: Tensor, value: Tensor, slope: Tensor
) -> tuple[Tensor, Tensor]:
    """Halve the step of each column until it lowers the objective enough; returns steps and objectives [K]."""
    w, d = theta[:-1], direction[:-1]
    quadratic = ((w * w).sum(0), (w * d).sum(0), (d * d).sum(0))
    step = torch.ones_like(value)
    for _ in range(_HALVINGS):
        penalty = problem.strengths / 2 * (quadratic[0] + 2 * step * quadratic[1] + step**2 * quadratic[2])
        tried = problem.loss(logits + step * moved) + penalty
        # Near the optimum the gain drowns in rounding: as good as before is then good enough.
        enough = tried <= value + _ARMIJO * step * slope + 4 * torch.finfo(value.dtype).eps * value.abs()
        if bool(enough.all()):
            return step, tried
        step = torch.where(enough, step, step / 2)
    return torch.where(enough, step, 0.0), torch.where(enough, tried, value)
