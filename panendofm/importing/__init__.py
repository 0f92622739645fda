"""Images that others prepared, as a shard set: WebDataset tars, a folder of images, a Hugging Face dataset on disk."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
