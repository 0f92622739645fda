"""Where text stands in an image: a network, run only where there are strokes like letters."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
