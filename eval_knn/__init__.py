"""Checkpoint to score: kNN on a labeled set, selection of the best checkpoint, early stopping."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
