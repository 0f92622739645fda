"""The verb `check-data`: is a folder of images and videos fit to be a test set, and free of persons?

Errors are what the benchmark's text forbids; remarks are what somebody should look at. Nothing is changed or deleted.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import av
import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image

from panendofm.challenge.config import CheckDataConfig
from panendofm.challenge.files.dicom import dicom_findings
from panendofm.imaging.dicom import DICOM_SUFFIXES, dicom_frames
from panendofm.imaging.frame_filters.config import FieldOfViewConfig, QualityConfig
from panendofm.imaging.frame_filters.field_of_view import detect_field_of_view
from panendofm.imaging.frame_filters.quality import drop_reason, measure
from panendofm.imaging.frame_filters.text import read_text
from panendofm.imaging.images import UnreadableImageError, is_image, open_image
from panendofm.imaging.videos import open_video
from panendofm.records.documents import read_document, write_document
from panendofm.runtime.console import say, table, track, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import sha256_of
from panendofm.runtime.names import printable

Level = Literal["error", "remark"]
IMAGES = {".jpg", ".jpeg", ".png", ".bmp"}
WITH_REMARK = {".tif", ".tiff", ".webp"}
VIDEOS = {".avi", ".mp4", ".m4v", ".mpeg", ".mpg"}
# Text that belongs to a dataset and not to the images.
_IGNORED = {".csv", ".json", ".txt", ".md", ".yaml", ".yml", ".xml", ".html", ".pdf", ".parquet"}
_PERSONAL_TAGS = {
    *("Artist", "Copyright", "ImageDescription", "UserComment", "XPAuthor", "XPComment", "XPTitle", "XPSubject"),
    *("DateTime", "DateTimeOriginal", "DateTimeDigitized", "CameraOwnerName", "BodySerialNumber", "GPSInfo"),
    "HostComputer",
}
_DATE = re.compile(r"(19|20)\d\d[-_.]?(0[1-9]|1[0-2])[-_.]?(0[1-9]|[12]\d|3[01])|\d{1,2}[-.]\d{1,2}[-.](19|20)\d\d")
_LONG_DIGITS = re.compile(r"\d{9,}")


@dataclass(frozen=True)
class DataFinding:
    """Something about one file. `check` names what was looked at: type, name, content, readable, exif, text …"""

    level: Level
    check: str
    file: str
    what: str


@dataclass(frozen=True)
class PoorImage:
    """An image that the pipeline would drop, and why. It is only listed."""

    file: str
    reason: str
    brightness: float
    washed_out: float
    sharpness: float


@dataclass
class DataCheck:
    """data_check.json: what was found, by file."""

    files: int = 0
    videos: int = 0
    findings: list[DataFinding] = field(default_factory=list)
    quality: list[PoorImage] = field(default_factory=list)
    format: Literal[1] = 1

    def add(self, level: Level, check: str, file: str, what: str) -> None:
        self.findings.append(DataFinding(level, check, printable(file), printable(what)))

    @property
    def errors(self) -> int:
        return sum(finding.level == "error" for finding in self.findings)

    @property
    def remarks(self) -> int:
        return len(self.findings) - self.errors


def read_data_check(path: Path) -> DataCheck:
    return read_document(DataCheck, path, "a report that 'challenge check-data' wrote")


def run_check(folder: Path, config: CheckDataConfig) -> int:
    return 1 if check_data(folder, config).errors else 0


def check_data(folder: Path, config: CheckDataConfig) -> DataCheck:
    if not folder.is_dir():
        raise UserError(f"cannot read {folder}: it is not a folder; name the folder of the test set.")
    files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith("."))
    report = DataCheck()
    by_content: dict[str, list[str]] = defaultdict(list)
    by_name: dict[str, list[str]] = defaultdict(list)
    for path in track(files, "files", len(files), "files"):
        relative = str(path.relative_to(folder))
        suffix = path.suffix.lower()
        if suffix in _IGNORED:
            continue
        if suffix not in IMAGES | WITH_REMARK | VIDEOS | DICOM_SUFFIXES:
            report.add("error", "type", relative, f"files that end in '{suffix}' are not allowed; convert or remove it")
            continue
        report.files += 1
        by_name[path.stem].append(relative)
        by_content[sha256_of(path)].append(relative)
        _check_name(report, relative, path)
        if is_image(path):
            _check_image(report, relative, path, config.text)
        elif suffix in VIDEOS:
            report.videos += 1
            _check_video(report, relative, path)
        else:
            for level, what in dicom_findings(path):
                report.add(level, "dicom", relative, what)
            _check_dicom_pixels(report, relative, path, config.text)
    _check_unique(report, by_content, "content", "the same bytes")
    _check_unique(report, by_name, "name", "the same name")
    if not report.files:
        raise UserError(f"{folder}: there are no images or videos in it; name the folder of the test set.")
    write_document(config.out, report)
    _say(report, config.out)
    return report


def _check_unique(report: DataCheck, files: dict[str, list[str]], check: str, what: str) -> None:
    for same in files.values():
        if len(same) > 1:
            report.add("error", check, same[1], f"{what} as {same[0]}; names and contents must be unique")


def _check_name(report: DataCheck, relative: str, path: Path) -> None:
    if _DATE.search(path.stem):
        report.add("remark", "name", relative, "the name seems to hold a date; is it a person's?")
    elif _LONG_DIGITS.search(path.stem):
        report.add("remark", "name", relative, "the name holds a long number; is it a patient's or a record's?")


def _check_image(report: DataCheck, relative: str, path: Path, text: bool) -> None:
    if path.suffix.lower() in WITH_REMARK:
        report.add("remark", "type", relative, "the benchmark names JPEG, PNG and BMP; public sets use this too")
    try:
        pixels = np.asarray(open_image(path))
    except UnreadableImageError as error:
        report.add("error", "readable", relative, error.problem)
        return
    for name in _personal_tags(path):
        report.add("error", "exif", relative, f"the tag {name} may name a person, a date or a place; remove it")
    _check_pixels(report, relative, pixels, text)


def _check_dicom_pixels(report: DataCheck, relative: str, path: Path, text: bool) -> None:
    """All frames must be readable and of one size; the first and the last are looked at."""
    sizes = set()
    first: NDArray[np.uint8] | None = None
    last: NDArray[np.uint8] | None = None
    frames = 0
    try:
        for last in dicom_frames(path):
            first = last if first is None else first
            sizes.add(last.shape)
            frames += 1
    except UnreadableImageError as error:
        report.add("error", "readable", relative, error.problem)
        return
    if first is None or last is None:
        report.add("error", "readable", relative, "there is no frame in it")
        return
    report.videos += frames > 1
    if len(sizes) > 1:
        report.add("error", "size", relative, f"its frames have {len(sizes)} sizes; a video must keep one")
    for pixels in [first, last] if frames > 1 else [first]:
        _check_pixels(report, relative, pixels, text)


def _check_pixels(report: DataCheck, relative: str, pixels: NDArray[np.uint8], text: bool) -> None:
    """Poor quality is listed; text that may name somebody is found."""
    view = detect_field_of_view([pixels], FieldOfViewConfig())
    inside = view.mask() if view is not None else np.full(pixels.shape[:2], 255, np.uint8)
    quality = measure(pixels, inside)
    reason = drop_reason(quality, QualityConfig())
    if reason:
        report.quality.append(PoorImage(printable(relative), reason, **vars(quality)))
    if text:
        found = read_text(pixels)
        if found.private:
            report.add("error", "text", relative, "a date or a person's field is written into the image")
        elif found.found:
            report.add("remark", "text", relative, "there is text in the image; look whether it names somebody")


def _personal_tags(path: Path) -> list[str]:
    with Image.open(path) as image:
        exif = image.getexif()
        names = {ExifTags.TAGS.get(tag, str(tag)) for tag, value in exif.items() if value}
        for directory in (ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo):
            inner = exif.get_ifd(directory)
            if directory == ExifTags.IFD.GPSInfo and inner:
                names.add("GPSInfo")
            names |= {ExifTags.TAGS.get(tag, str(tag)) for tag, value in inner.items() if value}
    return sorted(names & _PERSONAL_TAGS)


def _check_video(report: DataCheck, relative: str, path: Path) -> None:
    """Readable, of one frame size, without a title, a date or a place."""
    try:
        with open_video(path) as container:
            if not container.streams.video:
                report.add("error", "readable", relative, "there is no image track in it")
                return
            tags = {**container.metadata, **container.streams.video[0].metadata}
            sizes, frames = set(), 0
            for frame in container.decode(video=0):
                sizes.add((frame.width, frame.height))
                frames += 1
    except (av.FFmpegError, OSError, ValueError) as error:
        report.add("error", "readable", relative, f"it can't be decoded ({error})")
        return
    if not frames:
        report.add("error", "readable", relative, "no frame can be decoded")
    if len(sizes) > 1:
        report.add("error", "size", relative, f"its frames have {len(sizes)} sizes; a video must keep one")
    for name in ("title", "artist", "author", "comment", "creation_time", "date", "location"):
        if tags.get(name) and name != "creation_time":
            report.add("error", "metadata", relative, f"the tag {name} may name a person, a date or a place; remove it")
        elif tags.get(name) and not str(tags[name]).startswith(("1904", "1970")):
            report.add("error", "metadata", relative, "the tag creation_time is a date; remove it")


def _say(report: DataCheck, out: str) -> None:
    counts = Counter((finding.level, finding.check) for finding in report.findings)
    if counts:
        rows = [[level, check, str(count)] for (level, check), count in sorted(counts.items())]
        table("findings", ["level", "check", "files"], rows)
    for finding in [finding for finding in report.findings if finding.level == "error"][:5]:
        warn(f"{finding.file}: {finding.what}.")
    say(
        f"{report.files} files, {report.videos} of them videos: {report.errors} errors, {report.remarks} remarks, "
        f"{len(report.quality)} of poor quality; all in {out}"
    )
