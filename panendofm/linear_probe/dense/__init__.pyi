from .config import DenseConfig
from .results.document import DenseResults, read_dense_results
from .run import run_dense

__all__ = [
    "DenseConfig",
    "DenseResults",
    "read_dense_results",
    "run_dense",
]
