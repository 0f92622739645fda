from .export import export_release
from .formats import Export, write_graph
from .publish import publish_release
from .verify import verify_release

__all__ = [
    "Export",
    "export_release",
    "publish_release",
    "verify_release",
    "write_graph",
]
