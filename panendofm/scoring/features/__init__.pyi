from . import k_center, spectrum

__all__ = [
    "k_center",
    "spectrum",
]
