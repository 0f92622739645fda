"""Which network a word means, and its features. The words are listed in registry.py; each family has its file.

network = find_network("timm:resnet50@weights.safetensors", cache)
module = network.load()                                # reads the weights
module(images)                                         # [B, D], or `Tokens` of a ViT of ours
module.feature_maps(images, last=4)                    # [B, C, h, w] of the last blocks; see network.outputs.maps
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
