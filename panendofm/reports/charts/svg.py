"""SVG elements as escaped text."""

from __future__ import annotations

from markupsafe import Markup, escape

# One color for each series of a chart, told apart in print and by people who see red and green alike.
PALETTE = ("#1f5aa0", "#d1495b", "#3b8f5a", "#8d6a9f", "#c98b2b", "#17849a", "#8c564b", "#555555")
ACCENT = PALETTE[0]
GRID = "#e6e6e6"
MUTED = "#666"
# Share of its size below which a chart's text is too small to read.
_READABLE = 0.6


def color_of(number: int) -> str:
    return PALETTE[number % len(PALETTE)]


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """`element("text", "a < b", font_size=11)` → `<text font-size="11">a &lt; b</text>`.

    Children that are Markup stay as they are, all else is escaped. Attributes that are None are left out; a trailing
    underscore avoids Python's keywords.
    """
    parts = [Markup("<"), tag]
    for name, value in attributes.items():
        if value is None:
            continue
        written = f"{value:.1f}" if isinstance(value, float) else value
        parts.append(Markup(' {}="{}"').format(name.rstrip("_").replace("_", "-"), written))
    parts.append(Markup(">"))
    parts.extend(escape(child) for child in children)
    parts.append(Markup("</{}>").format(Markup(tag)))
    return Markup("").join(parts)


def drawing(label: str, width: float, height: float, *children: object) -> Markup:
    """A whole <svg>; `label` is read aloud. On a narrow screen it shrinks while its text can be read, then scrolls."""
    svg = element(
        "svg",
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        width=f"{width:g}",
        role="img",
        aria_label=label,
        font_family="system-ui, sans-serif",
        style=f"min-width: {_READABLE * width:.0f}px",
    )
    return element("div", svg, class_="chart")


def text(content: object, x: float, y: float, size: int = 11, **attributes: object) -> Markup:
    return element("text", content, x=float(x), y=float(y), font_size=size, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, stroke: str = GRID, **attributes: object) -> Markup:
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), stroke=stroke, **attributes)


def points(pairs: list[tuple[float, float]]) -> str:
    """For <polyline> and <polygon>."""
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in pairs)


def legend(names: list[str]) -> Markup:
    """What each color of the palette stands for, in order."""
    items = [
        element("li", element("span", style=f"background:{color_of(number)}"), name)
        for number, name in enumerate(names)
    ]
    return element("ul", *items, class_="legend")
