"""AdamW on each rank's own shards, with a step that the device itself can leave out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from pretrain.parallel.local import local

_STATE = ("exp_avg", "exp_avg_sq", "step")


class ShardedAdamW(torch.optim.AdamW):
    """torch's AdamW. Its state is made at once and not at the first step, so that a checkpoint can be loaded in place.

    The fused kernel gets the local shards: it works element by element, so there is nothing for DTensor to decide, and
    its dispatching costs more than the arithmetic of a small network.
    """

    def __init__(self, groups: list[dict[str, Any]], betas: tuple[float, float], eps: float) -> None:
        super().__init__(groups, lr=0.0, betas=betas, eps=eps)
        with torch.no_grad():
            for group in self.param_groups:
                group["fused"] = True
                for parameter in group["params"]:
                    state: dict[str, Any] = self.state[parameter]
                    state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
                    state["exp_avg"] = torch.zeros_like(parameter)
                    state["exp_avg_sq"] = torch.zeros_like(parameter)

    @torch.no_grad()
    def step(self, unless: Tensor | None = None) -> None:  # type: ignore[override]
        """One step. Where `unless`, a flag on the device, is true, weights and state stay as they are."""
        found_inf = None if unless is None else unless.float()  # the kernel's own word for such a flag
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            averages, squares, steps = ([local(self.state[p][kind]) for p in parameters] for kind in _STATE)
            adamw(
                [local(p) for p in parameters],
                [local(p.grad) for p in parameters],
                averages,
                squares,
                [],
                steps,
                fused=True,
                found_inf=found_inf,
                amsgrad=False,
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
            )
