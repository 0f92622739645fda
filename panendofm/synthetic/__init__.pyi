from .corpus import synthesize
from .examination import write_examination
from .plan import SIZES

__all__ = [
    "SIZES",
    "synthesize",
    "write_examination",
]
