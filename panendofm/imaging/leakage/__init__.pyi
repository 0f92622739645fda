from .compare import THUMBNAIL_PX, Thumbnail, thumbnail_of
from .config import LeakageConfig
from .guard import Guard, GuardedImage, Match, build_guard, guarded_image
from .guard_folder import FEW_VECTORS, write_guard
from .views import COVERED, WINDOWS

__all__ = [
    "COVERED",
    "FEW_VECTORS",
    "THUMBNAIL_PX",
    "WINDOWS",
    "Guard",
    "GuardedImage",
    "LeakageConfig",
    "Match",
    "Thumbnail",
    "build_guard",
    "guarded_image",
    "thumbnail_of",
    "write_guard",
]
