"""Small pictures for pages, as SVG text."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin

from panendofm.reports.pages import text

PALETTE = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2")


def radar(axes: Sequence[str], lines: Sequence[tuple[str, Sequence[float | None]]], side_px: int = 420) -> str:
    """Shares from 0 (middle) to 1 (rim) on one axis for each name."""
    if len(axes) < 3:
        return ""
    middle, rim = side_px / 2, side_px / 2 - 50

    def point(number: int, share: float) -> tuple[float, float]:
        angle = 2 * pi * number / len(axes) - pi / 2
        return middle + rim * share * cos(angle), middle + rim * share * sin(angle)

    parts = []
    for share in (0.25, 0.5, 0.75, 1.0):
        corners = " ".join("{:.1f},{:.1f}".format(*point(n, share)) for n in range(len(axes)))
        parts.append(f'<polygon points="{corners}" fill="none" stroke="#ddd"/>')
        x, y = point(0, share)
        parts.append(f'<text x="{x + 3:.1f}" y="{y + 4:.1f}" font-size="9" fill="#999">{share:g}</text>')
    for number, name in enumerate(axes):
        x, y = point(number, 1.12)
        parts.append(f'<text x="{x:.1f}" y="{y + 4:.1f}" font-size="12" text-anchor="middle">{text(name)}</text>')
    for (_, shares), colour in zip(lines, PALETTE, strict=False):
        corners = " ".join("{:.1f},{:.1f}".format(*point(n, s or 0.0)) for n, s in enumerate(shares))
        parts.append(f'<polygon points="{corners}" fill="{colour}22" stroke="{colour}" stroke-width="1.5"/>')
    return f'<svg viewBox="0 0 {side_px} {side_px}" width="{side_px}" role="img">{"".join(parts)}</svg>{_legend(lines)}'


def _legend(lines: Sequence[tuple[str, object]]) -> str:
    items = "".join(
        f'<li><span style="background:{colour}"></span>{text(name)}</li>'
        for (name, _), colour in zip(lines, PALETTE, strict=False)
    )
    return f'<ul class="legend">{items}</ul>'


def scatter(
    points: Sequence[tuple[str, float, float]], x_title: str, y_title: str, levels: Sequence[tuple[str, float]] = ()
) -> str:
    """Quality against cost: points (name, x, y), horizontal lines, and the front of points that none beats in both."""
    if not points:
        return ""
    width, height, left, bottom = 560, 340, 60, 45
    largest = max(x for _, x, _ in points) or 1.0
    top = max([y for _, _, y in points] + [y for _, y in levels] + [1e-9]) * 1.1

    def place(x: float, y: float) -> tuple[float, float]:
        return left + (width - left - 120) * x / largest, height - bottom - (height - bottom - 20) * y / top

    parts = [
        f'<line x1="{left}" y1="{height - bottom}" x2="{width}" y2="{height - bottom}" stroke="#888"/>',
        f'<line x1="{left}" y1="10" x2="{left}" y2="{height - bottom}" stroke="#888"/>',
        f'<text x="{width / 2}" y="{height - 8}" font-size="12" text-anchor="middle">{text(x_title)}</text>',
        f'<text x="14" y="{height / 2}" font-size="12" transform="rotate(-90 14 {height / 2})" '
        f'text-anchor="middle">{text(y_title)}</text>',
    ]
    for share in (0.0, 0.5, 1.0):
        x, y = place(largest * share, 0)
        parts.append(f'<text x="{x:.1f}" y="{y + 14:.1f}" font-size="10" fill="#666">{largest * share:.3g}</text>')
        x, y = place(0, top / 1.1 * share)
        height_text = f"{top / 1.1 * share:.2f}"
        parts.append(
            f'<text x="{x - 4:.1f}" y="{y + 4:.1f}" font-size="10" fill="#666" text-anchor="end">{height_text}</text>'
        )
    for name, level in levels:
        _, y = place(0, level)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{width}" y2="{y:.1f}" stroke="#aaa" stroke-dasharray="4 3"/>')
        parts.append(
            f'<text x="{width}" y="{y - 3:.1f}" font-size="11" text-anchor="end" fill="#666">{text(name)}</text>'
        )
    front = [p for p in points if not any(q[1] <= p[1] and q[2] >= p[2] and q != p for q in points)]
    path = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for _, x, y in sorted(front, key=lambda p: p[1]))
    parts.append(f'<polyline points="{path}" fill="none" stroke="#2ca02c" stroke-width="1"/>')
    for (name, x, y), colour in zip(points, PALETTE * len(points), strict=False):
        px, py = place(x, y)
        parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{px + 8:.1f}" y="{py + 4:.1f}" font-size="11">{text(name)}</text>')
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img">{"".join(parts)}</svg>'
