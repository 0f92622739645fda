from .compare import THUMBNAIL_PX, Thumbnail, thumbnail_of
from .config import LeakageConfig
from .guard import Guard, Match, build_guard
from .guard_folder import FEW_VECTORS, write_guard
from .views import COVERED, WINDOWS

__all__ = [
    "COVERED",
    "FEW_VECTORS",
    "THUMBNAIL_PX",
    "WINDOWS",
    "Guard",
    "LeakageConfig",
    "Match",
    "Thumbnail",
    "build_guard",
    "thumbnail_of",
    "write_guard",
]
