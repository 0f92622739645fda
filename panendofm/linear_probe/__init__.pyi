from .config import ProbeConfig
from .inference.report_document import VideoReport, read_video_report
from .results.document import ProbeResults, read_probe_results
from .run import Benchmark, run_benchmark

__all__ = [
    "Benchmark",
    "ProbeConfig",
    "ProbeResults",
    "VideoReport",
    "read_probe_results",
    "read_video_report",
    "run_benchmark",
]
