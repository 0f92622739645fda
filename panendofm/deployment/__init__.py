"""A release on the machine where it will run: smaller graphs, what they cost in quality, and how fast all are."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
