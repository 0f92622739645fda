"""Images: reading them, hashing them, finding what belongs to the endoscope's view, comparing copies."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
