from .compare import Thumbnail, thumbnail_of
from .config import LeakageConfig
from .guard import Guard, GuardedImage, Match, build_guard, guarded_image
from .guard_folder import FEW_VECTORS, write_guard
from .method import method_of
from .views import WINDOWS

__all__ = [
    "FEW_VECTORS",
    "WINDOWS",
    "Guard",
    "GuardedImage",
    "LeakageConfig",
    "Match",
    "Thumbnail",
    "build_guard",
    "guarded_image",
    "method_of",
    "thumbnail_of",
    "write_guard",
]
