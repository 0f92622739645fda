"""What is looked at in an image: its field of view, the position box, whether it is fit for use."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
