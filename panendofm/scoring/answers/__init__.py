"""Metrics of replies: what a reply says, and whether it is right."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
