from . import charts, numbers
from .page import PageImage, data_url, render_page, render_text
from .tables import Table, latex, markdown

__all__ = [
    "PageImage",
    "Table",
    "charts",
    "data_url",
    "latex",
    "markdown",
    "numbers",
    "render_page",
    "render_text",
]
