from .export import export_release
from .formats import Export
from .verify import verify_release

__all__ = [
    "Export",
    "export_release",
    "verify_release",
]
