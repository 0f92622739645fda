"""Which parameters of the student's backbone train: all, those of the last blocks, or low-rank adapters.

What does not train keeps its bits, in the student and in the teacher. It has no gradient and no optimizer state, and
frozen blocks below the first one that trains keep no activations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from panendofm.runtime.errors import UserError

if TYPE_CHECKING:
    from panendofm.backbone import VisionTransformer

_FORM = re.compile(r"(last|lora):([1-9]\d*)")


@dataclass(frozen=True)
class Trainable:
    """`amount`: the number of last blocks, or the rank of the adapters."""

    kind: Literal["all", "last", "lora"] = "all"
    amount: int = 0

    def first_block(self, depth: int) -> int:
        """The first block through which gradients flow."""
        return depth - self.amount if self.kind == "last" else 0


def parse_trainable(text: str, depth: int) -> Trainable:
    """`all`, `last:K` or `lora:R`, as `model.trainable` gives it."""
    if text == "all":
        return Trainable()
    form = _FORM.fullmatch(text)
    if form is None:
        raise UserError(f"model.trainable={text} is none of all, last:K (blocks) and lora:R (rank); write last:2.")
    amount = int(form[2])
    if form[1] == "lora":
        return Trainable("lora", amount)
    if amount > depth:
        raise UserError(f"model.trainable={text}: the backbone has {depth} blocks; choose at most last:{depth}.")
    return Trainable("last", amount)


def restrict(backbone: VisionTransformer, trainable: Trainable) -> None:
    """Freeze what does not train, and give the blocks their adapters.

    The mask token trains in any case: it belongs to the objective's task, not to the features.
    """
    if trainable.kind == "all":
        return
    backbone.requires_grad_(False)
    backbone.mask_token.requires_grad_(True)
    if trainable.kind == "lora":
        from panendofm.backbone import add_adapters  # here: the config is read without torch

        add_adapters(backbone.blocks, trainable.amount)
        return
    for block in backbone.blocks[-trainable.amount :]:
        block.requires_grad_(True)
    backbone.norm.requires_grad_(True)
