"""A synthetic endoscopy corpus in the layouts of the real ones, so that the whole pipeline runs without a download."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
