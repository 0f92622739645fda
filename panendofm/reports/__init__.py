"""HTML pages that open without a network: one frame, templates, charts, and numbers as people read them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
