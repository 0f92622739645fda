"""report.json of a video: what a network says that it shows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from panendofm.records.documents import read_document, write_document

# Questions that the Medico task's gastroenterologists answered about each report.
RATING_FORM = (
    "Is it clear and trustworthy?",
    "What are its limitations?",
    "Is it useful in the clinic?",
    "Suggestions for improvement?",
    "Further findings that would be useful?",
)


@dataclass(frozen=True)
class ReportedSegment:
    """A stretch of one finding, or of frames that are uncertain."""

    label: str
    first_frame: int
    end_frame: int
    start_seconds: float
    end_seconds: float
    start_clock: str
    end_clock: str
    mean_confidence: float
    zone: str | None  # where in the image; None where the network has no feature maps
    center: tuple[float, float] | None
    key_frame: int
    key_seconds: float


@dataclass(frozen=True)
class AgainstTruth:
    """The segments against true events. An event is found at a temporal IoU of at least one half."""

    events: int
    events_found: int
    share_of_events_found: float | None
    segments: int
    segment_f1: float | None
    right_frames: float
    error_of_shares: dict[str, float]


@dataclass(frozen=True)
class VideoReport:
    video: str
    video_sha256: str | None
    network: str
    weights_sha256: str
    head_sha256: str
    classes: list[str]
    fps: float
    window_seconds: float
    minimum_confidence: float
    minimum_seconds: float
    frames: int
    seconds: float
    shares: dict[str, float]  # of the time, by label
    order_of_events: list[str]
    segments: list[ReportedSegment]
    segments_per_minute: float
    rating_form: dict[str, str]
    against_truth: AgainstTruth | None = None
    note: str = "research use, not for diagnosis"
    format: int = 2


def read_video_report(path: Path) -> VideoReport:
    return read_document(VideoReport, path, "the report of a video")


def write_video_report(path: Path, report: VideoReport) -> None:
    write_document(path, report)
