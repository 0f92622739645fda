"""The atlas: public endoscopy datasets under one taxonomy of four levels, and what corpora and datasets share."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
