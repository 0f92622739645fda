from . import charts, numbers
from .page import PageImage, Table, data_url, render_page

__all__ = [
    "PageImage",
    "Table",
    "charts",
    "data_url",
    "numbers",
    "render_page",
]
