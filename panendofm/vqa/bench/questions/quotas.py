"""How many questions each entity of a task gets: equal shares, as far as there are images."""

from __future__ import annotations


def water_filling(sizes: dict[str, int], cap: int | None = None, total: int | None = None) -> dict[str, int]:
    """Raise all shares together until the total is reached; what exists and `cap` bound each of them.

    What is left over by the last round goes to the first ones.
    """
    limits = {name: size if cap is None else min(size, cap) for name, size in sizes.items()}
    left = sum(limits.values()) if total is None else min(total, sum(limits.values()))
    shares = dict.fromkeys(sizes, 0)
    while left:
        rising = [name for name in sizes if shares[name] < limits[name]]
        step = min(max(1, left // len(rising)), min(limits[name] - shares[name] for name in rising))
        for name in rising:
            share = min(step, left)
            shares[name] += share
            left -= share
    return shares
