"""Pictures inside the pages: a confusion matrix in colours, and speed against quality with the Pareto front (SVG)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from panendofm.reports.pages import text


def confusion_table(classes: Sequence[str], columns: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """Truth down, answer across; the darker, the larger the share of its row. Errors are red, right answers blue."""
    head = "".join(f'<th class="turned"><span>{text(name)}</span></th>' for name in columns)
    lines = []
    for i, (name, row) in enumerate(zip(classes, counts, strict=True)):
        total = max(sum(row), 1)
        cells = []
        for j, count in enumerate(row):
            shade = 0.08 + 0.8 * math.sqrt(count / total) if count else 0.0
            colour = "31, 90, 160" if i == j else "190, 50, 40"
            ink = "#fff" if shade > 0.55 else "#222"
            style = f"background: rgba({colour}, {shade:.2f}); color: {ink}" if count else ""
            title = f"{name} answered as {columns[j]}: {count} of {total}"
            cells.append(f'<td style="{style}" title="{text(title)}">{count if count else ""}</td>')
        lines.append(f"<tr><th>{text(name)}</th>{''.join(cells)}</tr>")
    return (
        '<div class="scroll"><table class="confusion"><thead><tr><th>truth \\ answer</th>'
        f"{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


STYLE = """
table.confusion { border-collapse: collapse; font-size: 0.75rem; }
table.confusion td { width: 2.4rem; height: 1.7rem; text-align: center; padding: 0; border: 1px solid #f0f0f0; }
table.confusion tbody th { text-align: right; font-weight: 400; padding: 0 0.5rem 0 0; white-space: nowrap; border: 0; }
table.confusion th.turned { height: 9.5rem; vertical-align: bottom; padding: 0 0 0.25rem; border: 0; }
table.confusion th.turned span { writing-mode: vertical-rl; transform: rotate(180deg); font-weight: 400; }
tr.ours td { background: #eef5ff; font-weight: 600; }
.bar { display: inline-block; height: 0.7rem; background: #1f5aa0; border-radius: 2px; vertical-align: middle; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: 0.75rem; }
.note { background: #fff8e1; border-left: 4px solid #e0a800; padding: 0.5rem 0.75rem; margin: 0.75rem 0; }
""".strip()


@dataclass(frozen=True)
class Point:
    name: str
    fps: float
    mcc: float
    ours: bool
    on_front: bool


_WIDTH, _HEIGHT = 820, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 20, 52


def speed_quality(points: Sequence[Point], limits: Sequence[float] = (30, 45, 64)) -> str:
    """MCC against frames per second (logarithmic); ours filled, published ones hollow; the front is a line."""
    if not points:
        return ""
    low = math.floor(math.log10(min(p.fps for p in points) * 0.8))
    high = math.ceil(math.log10(max(max(p.fps for p in points) * 1.2, 100)))
    bottom = math.floor(10 * min(p.mcc for p in points) - 0.2) / 10
    bottom = max(min(bottom, 0.9), -1.0)

    def x(fps: float) -> float:
        return _LEFT + (math.log10(fps) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def y(mcc: float) -> float:
        return _HEIGHT - _BOTTOM - (mcc - bottom) / (1 - bottom) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" aria-label="speed against quality">']
    parts += _axes(low, high, bottom, x, y)
    for limit in limits:
        at = x(limit)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#c9a100" '
            f'stroke-dasharray="3 4"/><text x="{at + 3:.1f}" y="{_HEIGHT - _BOTTOM - 6}" font-size="10" '
            f'fill="#8a6d00">{limit:g}</text>'
        )
    front = sorted((p for p in points if p.on_front), key=lambda p: p.fps)
    line = " ".join(f"{x(p.fps):.1f},{y(p.mcc):.1f}" for p in front)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#1f5aa0" stroke-width="1.5" stroke-opacity="0.5"/>')
    parts += _dots(points, x, y)
    return "".join(parts) + "</svg>"


def _axes(low: int, high: int, bottom: float, x: Any, y: Any) -> list[str]:
    parts = []
    for power in range(low, high + 1):
        at = x(10.0**power)
        label = f"{10**power:,}" if power >= 0 else f"{10.0**power:g}"
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#eee"/>'
            f'<text x="{at:.1f}" y="{_HEIGHT - _BOTTOM + 16}" font-size="11" text-anchor="middle">{label}</text>'
        )
    steps = round((1 - bottom) * 10)
    for step in range(steps + 1):
        value = bottom + step / 10
        at = y(value)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#eee"/>'
            f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" font-size="11" text-anchor="end">{value:.1f}</text>'
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 12}" font-size="12" text-anchor="middle">pictures per second (dotted: '
        f'real time by three definitions)</text><text x="16" y="{_HEIGHT / 2 - 20}" font-size="12" '
        f'transform="rotate(-90 16 {_HEIGHT / 2 - 20})" text-anchor="middle">MCC</text>'
    )
    return parts


def _dots(points: Sequence[Point], x: Any, y: Any) -> list[str]:
    """Names are moved apart where they would lie on one another."""
    parts: list[str] = []
    placed: list[tuple[float, float, float]] = []
    for p in sorted(points, key=lambda p: -p.mcc):
        cx, cy = x(p.fps), y(p.mcc)
        width = 6.3 * len(p.name)
        right = cx + 8 + width < _WIDTH
        left = cx + 8 if right else cx - 8 - width
        at = cy + 4
        while any(abs(at - b) < 12 and left < c + w and c < left + width for c, b, w in placed):
            at += 12
        placed.append((left, at, width))
        fill = "#1f5aa0" if p.ours else "#fff"
        parts.append(
            f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="5" fill="{fill}" stroke="#1f5aa0" stroke-width="1.5">'
            f"<title>{text(p.name)}: MCC {p.mcc:.4f} at {p.fps:,.2f} pictures/s</title></circle>"
            f'<text x="{left:.1f}" y="{at:.1f}" font-size="11" font-weight="{700 if p.ours else 400}">'
            f"{text(p.name)}</text>"
        )
    return parts
