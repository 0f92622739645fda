"""Which block's tokens are an image's feature, and how they are pooled: the words `block` and `pooling` of all stages.

block    last; a number from 1 (the first) or from -1 (the last); auto: the later half of the blocks are candidates
pooling  cls: the cls token; mean: the mean patch token; both: one behind the other; auto: these three are candidates

Tokens pass the final norm, whatever their block. `last` and `cls` are the network's own output, which every network
has; all else needs a network with blocks. Whoever asks for `auto` chooses among the candidates by labels that no figure
is computed from.
"""

from __future__ import annotations

from panendofm.runtime.errors import UserError

AUTO, LAST = "auto", "last"
POOLINGS = ("cls", "mean", "both")

BLOCK_HELP = "Block whose tokens are read: last, a number from 1 (the first) or -1 (the last), or auto."
DEVICE_HELP = "auto (a GPU when there is one), cpu, cuda or cuda:N."
POOLING_HELP = "Tokens that are read: cls, mean (of the patches), both, or auto."


def check_words(block: str, pooling: str, keys: str = "") -> None:
    """Whether they can mean anything, whatever the network."""
    number = block.removeprefix("-")
    if block not in (LAST, AUTO) and not (number.isdecimal() and int(number)):
        raise UserError(
            f"{keys}block must be {LAST}, {AUTO}, or a number from 1 (the first) or -1 (the last), not '{block}'."
        )
    if pooling not in (*POOLINGS, AUTO):
        raise UserError(f"{keys}pooling must be {', '.join(POOLINGS)} or {AUTO}, not '{pooling}'.")
