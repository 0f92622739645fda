"""Damage to bytes, from a seed: what disks, copies, editors and people who wish us ill do to files."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

EXTREMES = [b"-1", b"0", b"1e309", b"NaN", b"-Infinity", b"99999999999999999999", b"null", b'""', b"[]", b"{}", b"true"]
HOSTILE = [
    *(b"../../../etc/passwd", b"/dev/zero", b"\x1b[2J", b"=cmd()", b"\xff\xfe", b"\x00", b"${run.dir}", b"&a [*a]"),
    *(b"\xed\xb3\xbc", b"\xe2\x80\xae", b"!!python/object/apply:os.system [id]", b"A" * 5000, b"blocks.50000.x"),
]

Mutator = Callable[[bytes, random.Random], bytes]


def _place(data: bytes, dice: random.Random) -> int:
    """Anywhere, but the ends, where headers and indexes lie, three times in ten."""
    if dice.random() < 0.3:
        edge = dice.randrange(min(len(data), 64) or 1)
        return edge if dice.random() < 0.5 else max(0, len(data) - 1 - edge)
    return dice.randrange(len(data) or 1)


def flip_bits(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.choice([1, 1, 1, 4, 32])):
        if changed:
            changed[_place(data, dice)] ^= 1 << dice.randrange(8)
    return bytes(changed)


def overwrite(data: bytes, dice: random.Random) -> bytes:
    at, size = _place(data, dice), dice.choice([1, 4, 64, 512])
    fill = bytes(size) if dice.random() < 0.5 else dice.randbytes(size)
    return data[:at] + fill[: max(0, len(data) - at)] + data[at + size :]


def cut(data: bytes, dice: random.Random) -> bytes:
    return data[: _place(data, dice)]


def drop(data: bytes, dice: random.Random) -> bytes:
    at = _place(data, dice)
    return data[:at] + data[at + dice.choice([1, 2, 16, 512]) :]


def double(data: bytes, dice: random.Random) -> bytes:
    at, size = _place(data, dice), dice.choice([1, 16, 512])
    return data[: at + size] + data[at:]


def insert(data: bytes, dice: random.Random) -> bytes:
    at = _place(data, dice)
    return data[:at] + dice.choice([*HOSTILE, *EXTREMES]) + data[at:]


def swap_blocks(data: bytes, dice: random.Random) -> bytes:
    size = 512
    a, b = (dice.randrange(max(1, len(data) // size)) * size for _ in range(2))
    blocks = bytearray(data)
    blocks[a : a + size], blocks[b : b + size] = data[b : b + size], data[a : a + size]
    return bytes(blocks)


def other_number(data: bytes, dice: random.Random) -> bytes:
    numbers = list(re.finditer(rb"-?\d+(\.\d+)?", data[:200_000]))
    if not numbers:
        return overwrite(data, dice)
    chosen = dice.choice(numbers)
    return data[: chosen.start()] + dice.choice(EXTREMES) + data[chosen.end() :]


def other_line(data: bytes, dice: random.Random) -> bytes:
    lines = data.split(b"\n")
    at = dice.randrange(len(lines))
    action = dice.randrange(4)
    if action == 0:
        del lines[at]
    elif action == 1:
        lines.insert(at, lines[at])
    elif action == 2:
        lines[at] = dice.choice(HOSTILE)
    else:
        dice.shuffle(lines)
    return b"\n".join(lines)


def other_json(data: bytes, dice: random.Random) -> bytes:
    """A value or key of a JSON document replaced by one of another kind."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return other_number(data, dice)
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            places.append((value, key))
            walk(inner)

    walk(document)
    if not places:
        return b"[]"
    holder, key = dice.choice(places)
    if dice.random() < 0.3 and isinstance(holder, dict):
        del holder[key]
    else:
        values: list[Any] = [None, -1, 0, 2**70, "", "x" * 300, [], {}, True, [[1]], {"a": 1}, 0.5, "../x", "\x1b[2J"]
        holder[key] = dice.choice(values)
    return json.dumps(document).encode()


def something_else(data: bytes, dice: random.Random) -> bytes:
    return dice.choice([b"", bytes(1024), dice.randbytes(2048), b"[" * 50_000, b"{}", b"<html></html>", data[::-1]])


MUTATORS: list[Mutator] = [
    *(flip_bits, flip_bits, overwrite, cut, drop, double, insert, swap_blocks, other_number, other_line, other_json),
    something_else,
]


def mutate(data: bytes, dice: random.Random) -> bytes:
    """One accident, now and then two."""
    for _ in range(dice.choice([1, 1, 1, 2])):
        data = dice.choice(MUTATORS)(data, dice)
    return data
