"""Charts are well-formed SVG, keep to their frame, and say what they show."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from panendofm.reports.charts import (
    ForestRow,
    Point,
    Series,
    Violin,
    bar_chart,
    confusion_chart,
    forest_chart,
    heatmap_chart,
    histogram,
    line_chart,
    radar_chart,
    scatter_chart,
    violin_chart,
)
from panendofm.reports.charts.axes import Scale, scale_of

NAME = "a < b & 'c'"
CURVES = [
    Series(NAME, [0, 10, 20], [3.0, 2.0, 1.0], [2.5, 1.5, 0.5], [3.5, 2.5, 1.5]),
    Series("gap", [0, 10, 20], [1.0, math.nan, 3.0]),
]
CHARTS = {
    "lines": line_chart(NAME, CURVES, marked_x=10),
    "log": line_chart(NAME, [Series(NAME, [1, 2, 3], [0.0, 1e-5, 0.1])], logarithmic=True),
    "roc": line_chart(NAME, [Series(NAME, [0, 0.5, 1], [0, 0.9, 1])], diagonal=True),
    "constant": line_chart(NAME, [Series(NAME, [5], [0.0])]),
    "empty": line_chart(NAME, [Series(NAME, [], [])]),
    "forest": forest_chart(NAME, [ForestRow(NAME, 0.8, 0.7, 0.9), ForestRow("b", 0.5, hollow=True)], reference=0.6),
    "radar": radar_chart(NAME, [NAME, "b", "c"], [(NAME, [0.2, None, 1.0])]),
    "scatter": scatter_chart(
        NAME,
        [Point(NAME, 30, 0.8, on_front=True), Point(NAME, 31, 0.8, hollow=True)],
        x_label=NAME,
        y_label="MCC",
        logarithmic=True,
        x_marks=(30, 64),
        y_levels=[(NAME, 0.9)],
    ),
    "violin": violin_chart(NAME, [Violin(NAME, [1, 2, 2, 5]), Violin("b", [3.0], hollow=True)], 0.5, 5.5),
    "bars": bar_chart(NAME, [(NAME, 1200), ("b", 0)], unit="images"),
    "histogram": histogram(NAME, [0, 0.5, 1], [3, 0], marked_x=0.4),
    "confusion": confusion_chart([NAME, "b"], [NAME, "b"], [[3, 1], [0, 0]]),
    "heatmap": heatmap_chart(NAME, [NAME], ["x", "y"], [[0.3, None]]),
}


@pytest.mark.parametrize("name", CHARTS)
def test_charts_are_well_formed_and_escaped(name: str) -> None:
    chart = CHARTS[name]
    assert isinstance(chart, Markup)
    root = ElementTree.fromstring(f"<div>{chart}</div>")
    assert NAME in "".join(root.itertext()) + "".join(node.get("aria-label", "") for node in root.iter())
    assert "nan" not in str(chart) and "inf" not in str(chart)


@pytest.mark.parametrize("name", [name for name in CHARTS if "<svg" in CHARTS[name]])
def test_nothing_is_drawn_outside(name: str) -> None:
    root = ElementTree.fromstring(f"<div>{CHARTS[name]}</div>")
    svg = next(node for node in root.iter() if node.tag == "svg")
    width, height = map(float, svg.attrib["viewBox"].split()[2:])
    for node in svg.iter():
        for names, limit in ((("x", "x1", "x2", "cx"), width), (("y", "y1", "y2", "cy"), height)):
            assert all(-0.5 <= float(node.attrib[key]) <= limit + 0.5 for key in names if key in node.attrib), (
                node.attrib
            )
        for pair in node.get("points", "").split():
            x, y = map(float, pair.split(","))
            assert -0.5 <= x <= width + 0.5 and -0.5 <= y <= height + 0.5


def test_scales_place_values_and_round_their_ticks() -> None:
    scale = Scale(0.0, 10.0, 100.0, 200.0)
    assert scale(5.0) == 150.0 and scale.ticks() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    log = scale_of([0.003, 40.0], 0.0, 100.0, logarithmic=True)
    assert (log.low, log.high) == (0.001, 100.0) and log(0.001) == 0.0 and log(100.0) == 100.0
    assert log.ticks() == pytest.approx([0.001, 0.01, 0.1, 1.0, 10.0, 100.0])
    assert len(scale_of([1e-20, 1.0], 0.0, 100.0, logarithmic=True).ticks()) == 7
    shares = scale_of([0.2, 0.9], 0.0, 100.0, include=(0.0, 1.0))
    assert (shares.low, shares.high) == (0.0, 1.0)


def test_a_gap_in_a_curve_is_not_bridged() -> None:
    assert str(line_chart("t", [CURVES[1]])).count("<polyline") == 2


def test_intervals_are_drawn_to_scale() -> None:
    root = ElementTree.fromstring(str(forest_chart("t", [ForestRow("a", 0.5, 0.4, 0.7)])))
    interval = next(n for n in root.iter("line") if n.get("stroke-width") == "2")
    mark = next(root.iter("rect"))
    left, right, middle = float(interval.attrib["x1"]), float(interval.attrib["x2"]), float(mark.attrib["x"]) + 4
    assert (middle - left) / (right - left) == pytest.approx(1 / 3, abs=0.01)
