from .config import ExaminationConfig, SynthesizeConfig
from .corpus import synthesize
from .examination import write_examination
from .plan import SIZES

__all__ = [
    "SIZES",
    "ExaminationConfig",
    "SynthesizeConfig",
    "synthesize",
    "write_examination",
]
