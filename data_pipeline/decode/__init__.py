"""Frames of a video, by one small interface: `frames_of(path, config)`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
