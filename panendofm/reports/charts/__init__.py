"""Charts for pages, as SVG or HTML that needs no script. Each function returns Markup, escaped already."""

from panendofm.reports.charts.bars import bar_chart, histogram
from panendofm.reports.charts.forest import ForestRow, forest_chart
from panendofm.reports.charts.heatmap import confusion_chart, heatmap_chart
from panendofm.reports.charts.lines import Series, line_chart
from panendofm.reports.charts.radar import radar_chart
from panendofm.reports.charts.scatter import Point, scatter_chart
from panendofm.reports.charts.svg import color_of
from panendofm.reports.charts.violin import Violin, violin_chart

__all__ = [
    "ForestRow",
    "Point",
    "Series",
    "Violin",
    "bar_chart",
    "color_of",
    "confusion_chart",
    "forest_chart",
    "heatmap_chart",
    "histogram",
    "line_chart",
    "radar_chart",
    "scatter_chart",
    "violin_chart",
]
