"""Which tokens of a network are an image's feature: what `block` and `pooling` mean for it. See feature_words.py."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from panendofm.backbone.features import CLS_TOKEN, FeatureKind
from panendofm.backbone.networks.feature_words import AUTO, LAST, POOLINGS, check_words
from panendofm.backbone.networks.network import Network
from panendofm.records.evaluation import OWN_OUTPUT
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError


@dataclass(frozen=True)
class FeatureChoice:
    """One way to read a feature out of what a `FeatureKind` holds: from token `first` to before token `last`."""

    name: str
    first: int = 0
    last: int = 1
    tokens: int = 1  # in a row of features

    def columns(self, width: int) -> tuple[int, int]:
        """First and one-past-last column in rows of features of this width."""
        token = width // self.tokens
        return self.first * token, self.last * token

    def of(self, features: Tensor) -> Tensor:
        """[N, width] → [N, D] or, of two tokens, [N, 2·D]."""
        start, stop = self.columns(features.shape[1])
        return features[:, start:stop].contiguous()


@dataclass(frozen=True)
class Reading:
    """What is computed (and cached) of a network, and the ways to read it; the last block and cls come first."""

    kind: FeatureKind
    choices: tuple[FeatureChoice, ...]


_OWN = Reading(CLS_TOKEN, (FeatureChoice(OWN_OUTPUT),))


def reading_of(network: Network, block: str, pooling: str, keys: str = "") -> Reading:
    """What `block` and `pooling` mean for a network; `keys` is what an error puts before their names."""
    check_words(block, pooling, keys)
    depth = network.outputs.blocks
    if not depth:
        if block not in (LAST, AUTO) or pooling not in (POOLINGS[0], AUTO):
            raise UserError(
                f"{keys}block and {keys}pooling: {network.name} has no blocks that can be read one by one; leave them "
                f"at {LAST} and {POOLINGS[0]}, which is its own output."
            )
        if AUTO in (block, pooling):
            say(f"{network.name} has no blocks to choose from: its own output is used")
        return _OWN
    blocks = tuple(range(-((depth + 1) // 2), 0)) if block == AUTO else (_index(block, depth, network.name, keys),)
    poolings = POOLINGS if pooling == AUTO else (pooling,)
    if blocks == (-1,) and poolings == POOLINGS[:1]:
        return _OWN
    choices = [
        _choice(place, pool, depth + 1 + blocks[place], depth, len(blocks))
        for place in reversed(range(len(blocks)))
        for pool in poolings
    ]
    return Reading(FeatureKind(blocks=blocks), tuple(choices))


def _index(block: str, depth: int, name: str, keys: str) -> int:
    """From -depth (the first block) to -1 (the last)."""
    if block == LAST:
        return -1
    number = int(block)
    if abs(number) > depth:
        raise UserError(f"{keys}block={block}: {name} has {depth} blocks; name one from 1 to {depth}, or {LAST}.")
    return number if number < 0 else number - depth - 1


def _choice(place: int, pooling: str, number: int, depth: int, blocks: int) -> FeatureChoice:
    """A row of features holds the cls token and the mean patch token of each block."""
    first, last = {"cls": (0, 1), "mean": (1, 2), "both": (0, 2)}[pooling]
    words = {"cls": "cls", "mean": "mean patch", "both": "cls+mean patch"}[pooling]
    return FeatureChoice(f"{words}, block {number} of {depth}", 2 * place + first, 2 * place + last, 2 * blocks)
