from .extraction import network_features
from .feature_selection import FeatureChoice, Reading, reading_of
from .feature_words import BLOCK_HELP, DEVICE_HELP, LAST, POOLING_HELP, POOLINGS, check_words
from .network import Network, Outputs
from .registry import find_network, find_networks, names_a_family
from .transformers_models import load_pretrained

__all__ = [
    "BLOCK_HELP",
    "DEVICE_HELP",
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
    "load_pretrained",
    "names_a_family",
    "network_features",
    "reading_of",
]
