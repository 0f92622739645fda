"""Which network a word means, and its features. The words are listed in registry.py; each family has its file.

network = find_network("timm:resnet50@weights.safetensors", cache)
module = network.load()                                # reads the weights
module(images)                                         # [B, D], or `Tokens` of a ViT of ours
module.feature_maps(images, last=4)                    # [B, C, h, w] of the last blocks; see network.outputs.maps
"""

from backbone.networks.extraction import network_features
from backbone.networks.network import Network, Outputs
from backbone.networks.reading import (
    BLOCK_HELP,
    LAST,
    POOLING_HELP,
    POOLINGS,
    FeatureChoice,
    Reading,
    check_words,
    reading_of,
)
from backbone.networks.registry import find_network, find_networks

__all__ = [
    "BLOCK_HELP",
    "LAST",
    "POOLINGS",
    "POOLING_HELP",
    "FeatureChoice",
    "Network",
    "Outputs",
    "Reading",
    "check_words",
    "find_network",
    "find_networks",
    "network_features",
    "reading_of",
]
