from . import pages

__all__ = [
    "pages",
]
