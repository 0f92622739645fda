from .benchmark import run_benchmark
from .compress import compress_release
from .results import BenchmarkResults, VideoSpeed

__all__ = [
    "BenchmarkResults",
    "VideoSpeed",
    "compress_release",
    "run_benchmark",
]
