"""Segmentation and detection on frozen features: `run.py` is the way through, `predict.py` uses what it trained."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
