"""Shards to checkpoints: DINOv2's training on any number of processes, exact across stops."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
