"""What a network sees in pictures, as a picture."""

from backbone.pictures.full_view import show_whole
from backbone.pictures.patches import show

__all__ = ["show", "show_whole"]
