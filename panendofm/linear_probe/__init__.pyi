from .config import ProbeConfig
from .inference.predict import predict
from .run import Benchmark, run_benchmark

__all__ = [
    "Benchmark",
    "ProbeConfig",
    "predict",
    "run_benchmark",
]
