"""How a training starts from existing backbone weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from panendofm.backbone import merge_adapters
from panendofm.runtime.errors import UserError
from pretrain.objective.objective import Objective

REGISTERS_KEY = "register_tokens"


def start_from(objective: Objective, weights: Mapping[str, Tensor], new_registers: bool = False) -> None:
    """Load backbone weights under the official names; every key must fit. Teacher and anchor become the student.

    The heads stay as they are, random but equal in student and teacher: released weights have none. With
    `new_registers` a backbone with register tokens may start from weights without them; the tokens keep their small
    random start (from "Vision Transformers Need Registers", there trained from the first step on).
    """
    backbone = objective.student["backbone"]
    own = merge_adapters(backbone.state_dict())  # under the official names: adapters have their own start
    if new_registers:
        if REGISTERS_KEY not in own:
            raise UserError("new_registers=true needs a backbone with registers; set registers=4, for example.")
        if REGISTERS_KEY in weights:
            raise UserError("the weights hold registers already; leave new_registers=false to keep them.")
        weights = {**weights, REGISTERS_KEY: own[REGISTERS_KEY]}
    missing, unexpected = sorted(own.keys() - weights.keys()), sorted(weights.keys() - own.keys())
    if missing or unexpected:
        raise UserError(
            f"the starting weights do not fit the backbone: {len(missing)} keys are missing"
            f"{_examples(missing)}, {len(unexpected)} are unknown{_examples(unexpected)}; "
            "use weights of the same architecture under the official key names."
        )
    for key, tensor in weights.items():
        if tensor.shape != own[key].shape:
            raise UserError(
                f"the starting weights' '{key}' has the shape {tuple(tensor.shape)}, the backbone's "
                f"{tuple(own[key].shape)}; build the backbone for these weights (image_px=518 for released ones)."
            )
    with torch.no_grad():
        backbone.load_state_dict(dict(weights), strict=False)  # all but the adapters, as was checked above
    objective.copy_student()


def _examples(keys: list[str]) -> str:
    return f" (such as '{keys[0]}')" if keys else ""
