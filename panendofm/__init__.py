"""Vision foundation models for gastrointestinal endoscopy: load them, look at their features, show their worth.

    import panendofm

    backbone = panendofm.load_backbone("releases/panendofm")     # any release, run, checkpoint or weights file
    features = panendofm.embed("releases/panendofm", ["images/"])  # features.values [N, D], features.keys
    result = panendofm.evaluate_knn("releases/panendofm", "kvasir-dataset-v2")

The pipeline's stages are packages of their own: `data_pipeline`, `pretrain`, `eval_knn` and `launch`.
"""

import lazy_loader

# One owner: pyproject.toml reads it from here.
__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
