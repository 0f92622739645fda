"""Weights out: a release folder with every format, checked, and its model card."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
