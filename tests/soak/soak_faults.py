"""What the soak does to a rank before it starts. Functions of a module, so that they can be sent to another process."""

from __future__ import annotations

import time


def clock_jumps() -> None:
    """The wall clock goes back a day, then ahead a week, at every third reading; the steady clock stays steady."""
    plain, readings = time.time, 0

    def jumping() -> float:
        nonlocal readings
        readings += 1
        return plain() + {0: 0.0, 1: -86_400.0, 2: 604_800.0}[readings % 3]

    time.time = jumping
