from .full_view import show_whole
from .patches import show

__all__ = [
    "show",
    "show_whole",
]
