from .config import HeadConfig, ProbeConfig
from .heads.head_run import HeadRun, open_head
from .inference.report_document import VideoReport, read_video_report
from .results.document import ProbeResults, read_probe_results
from .run import Benchmark, run_benchmark

__all__ = [
    "Benchmark",
    "HeadConfig",
    "HeadRun",
    "ProbeConfig",
    "ProbeResults",
    "VideoReport",
    "open_head",
    "read_probe_results",
    "read_video_report",
    "run_benchmark",
]
