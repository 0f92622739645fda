from .api import Embeddings, embed, evaluate_knn
from .backbone.networks.registry import find_network
from .backbone.weights.load import LoadedBackbone, load_backbone
from .runtime.config import load_config
from .runtime.errors import UserError

__version__: str

__all__ = [
    "Embeddings",
    "LoadedBackbone",
    "UserError",
    "__version__",
    "embed",
    "evaluate_knn",
    "find_network",
    "load_backbone",
    "load_config",
]
