from .results.document import DenseResults, read_dense_results

__all__ = [
    "DenseResults",
    "read_dense_results",
]
