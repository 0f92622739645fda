"""Public endoscopy corpora to clean, de-identified, leak-checked WebDataset shards.

    from data_pipeline import PipelineConfig, plan, shard, verify, report
    from panendofm import load_config

    config = load_config(PipelineConfig, "configs/corpora/panendo.yaml", ["out=/data/shards"])
    shard(config)

The functions are imported when they are first used: the command line answers `--help` at once.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
