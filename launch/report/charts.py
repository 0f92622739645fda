"""Curves as SVG that is put into the page itself."""

from __future__ import annotations

import io
import re
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from launch.report.collect import Series

# Small enough that the text is readable when a phone shows the chart in its full width.
_SIZE_INCHES = (4.8, 2.9)
_COLOURS = ("#1f6f8b", "#d1495b", "#66a182", "#8d6a9f", "#c98b2b", "#555555")
_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.formatter.useoffset": False,
    "svg.fonttype": "none",  # text stays text: it can be found and read aloud
    "svg.hashsalt": "report",  # equal curves give equal files
}


def chart(title: str, series: list[Series], marked_x: float | None = None, logarithmic: bool = False) -> str:
    """An <svg> with the curves; `marked_x` draws a line, for the chosen checkpoint."""
    with pyplot.rc_context(_STYLE):
        figure, axes = pyplot.subplots(figsize=_SIZE_INCHES, layout="constrained")
        for curve, colour in zip(series, _COLOURS * 3, strict=False):
            marker = "o" if len(curve.x) <= 40 else None
            axes.plot(curve.x, curve.y, color=colour, label=curve.name, linewidth=1.6, marker=marker, markersize=3)
            if curve.low:
                axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
        if marked_x is not None:
            axes.axvline(marked_x, color="#333333", linestyle="--", linewidth=1)
        if logarithmic:
            axes.set_yscale("log")  # leaves out the points at which a value is 0
        axes.set_title(title, loc="left", fontsize=11)
        axes.set_xlabel("step")
        if len(series) > 1:
            axes.legend(frameon=False, fontsize=8)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    return _inline(stream.getvalue(), title)


def _inline(svg: str, title: str) -> str:
    """Without the file's head, as wide as its place, and with ids that don't meet those of other charts."""
    body = svg[svg.index("<svg") :]
    body = re.sub(
        r'(<svg[^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", body, count=1), count=1
    )
    prefix = re.sub(r"\W+", "_", title)
    body = re.sub(r'\bid="', f'id="{prefix}-', body)
    body = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}-", body)
    return body.replace("<svg", f'<svg role="img" aria-label="{title}"', 1)
