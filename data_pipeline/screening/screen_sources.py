"""One unit of work: read its sources, screen their frames, write what passes to a part folder.

A part folder appears whole or not at all. It holds `frames.bin` (JPEGs end to end), `frames.parquet` (one row each),
`sources.json` (counts, problems, audit), `images.parquet` (small images for the report) and `painted.parquet`
(frames before and after text was painted over: for the private report).
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import hashlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import simplejpeg
from numpy.typing import NDArray

from data_pipeline.config import PipelineConfig
from data_pipeline.decode import Frame
from data_pipeline.identity import hashed
from data_pipeline.planning import Unit
from data_pipeline.registry import is_public_component
from data_pipeline.reporting.examples import EXAMPLE_SCHEMA, Examples
from data_pipeline.screening.audit import Audit, read_jpeg
from data_pipeline.screening.duplicates import RepeatedFrames
from data_pipeline.screening.reading import SourceReader
from data_pipeline.sources import Source
from panendofm.imaging.frame_filters.endoscopy import is_endoscopy, measure_colors
from panendofm.imaging.frame_filters.field_of_view import detect_field_of_view
from panendofm.imaging.frame_filters.layout import Layout, find_layout, find_text_places
from panendofm.imaging.frame_filters.quality import drop_reason, measure
from panendofm.imaging.image_hash import perceptual_hash
from panendofm.imaging.leakage import Guard, Match, thumbnail_of
from panendofm.records.documents import write_document
from panendofm.records.shards import FRAME_SCHEMA
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_directory
from panendofm.runtime.names import printable

# A frame's row while it lies in a part; the last columns say where in it, and mean nothing afterwards.
PART_SCHEMA = pa.schema([*FRAME_SCHEMA, ("single", pa.bool_()), ("offset", pa.int64()), ("size", pa.int64())])
PART_COLUMNS = ("single", "offset", "size")
PART_FRAMES, PART_EXAMPLES, PART_PAINTED = "frames.parquet", "images.parquet", "painted.parquet"
PART_FRAMES_BYTES, PART_SOURCES = "frames.bin", "sources.json"


@dataclass(frozen=True)
class Leak:
    """A frame that shows a guarded image."""

    frame: int
    image: str
    sha256: str
    correlation: float


@dataclass
class SourceResult:
    """What became of one source. Names are printable."""

    path: str
    corpus: str
    source: str
    seen: int = 0
    compared: int = 0  # with the guarded images
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    problems: dict[str, str] = field(default_factory=dict)
    audit: Counter[str] = field(default_factory=Counter)
    text_moves: bool = False  # so that it was looked for in every frame
    leaks: list[Leak] = field(default_factory=list)
    copy_of: str | None = None  # known when all sources are


def process_unit(unit: Unit, config: PipelineConfig, guard: Guard, key: bytes, part: Path) -> int:
    """Do the unit and write its part folder, unless it is there already. Returns the number of frames seen."""
    if part.is_dir():
        return 0
    cv2.setNumThreads(1)
    screened: list[SourceResult] = []
    try:
        with atomic_directory(part) as folder:
            with (folder / PART_FRAMES_BYTES).open("wb") as stream:
                writer = _PartWriter(stream)
                screened += [screen_source(source, unit, config, guard, key, writer) for source in unit.sources]
            pq.write_table(pa.Table.from_pylist(writer.rows, PART_SCHEMA), folder / PART_FRAMES)
            pq.write_table(pa.Table.from_pylist(writer.examples.rows, EXAMPLE_SCHEMA), folder / PART_EXAMPLES)
            pq.write_table(pa.Table.from_pylist(writer.painted.rows, EXAMPLE_SCHEMA), folder / PART_PAINTED)
            write_document(folder / PART_SOURCES, screened)
    except (UserError, OSError):
        # A worker of a driver that was killed may still have been at this unit, and have been faster.
        if not part.is_dir():
            raise
    _give_back_memory()
    return sum(result.seen for result in screened)


def _give_back_memory() -> None:
    """Return what was freed to the system. glibc keeps it, in pieces: a worker would grow from video to video."""
    with contextlib.suppress(OSError, AttributeError):  # other C libraries have no such function
        ctypes.CDLL(None).malloc_trim(0)


class _PartWriter:
    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.rows: list[dict[str, Any]] = []
        self.examples = Examples(per_reason=3)
        self.painted = Examples(per_reason=3)  # with what was painted over: never published

    def add(self, jpeg: bytes, row: dict[str, Any]) -> None:
        self.rows.append({**row, "offset": self._stream.tell(), "size": len(jpeg)})
        self._stream.write(jpeg)

    def mark(self) -> tuple[int, int, tuple[Examples, Examples]]:
        """Where things stand, for `go_back_to`."""
        return len(self.rows), self._stream.tell(), copy.deepcopy((self.examples, self.painted))

    def go_back_to(self, mark: tuple[int, int, tuple[Examples, Examples]]) -> None:
        """Forget what was written since."""
        rows, position, (self.examples, self.painted) = mark
        del self.rows[rows:]
        self._stream.seek(position)
        self._stream.truncate()


def screen_source(
    source: Source, unit: Unit, config: PipelineConfig, guard: Guard, key: bytes, writer: _PartWriter
) -> SourceResult:
    """Take a source through all screens. Where the audit still reads text, again, with text sought in every frame."""
    mark = writer.mark()
    result = _SourceScreen(source, unit, config, guard, key, writer).run()
    can_be_found = source.kind != "image" and not result.text_moves and config.screen.text.inside == "fill"
    if result.audit["after_text"] and can_be_found:
        writer.go_back_to(mark)
        result = _SourceScreen(source, unit, config, guard, key, writer, text_moves=True).run()
    return result


class _SourceScreen:
    """Takes one source through all screens, once."""

    def __init__(
        self,
        source: Source,
        unit: Unit,
        config: PipelineConfig,
        guard: Guard,
        key: bytes,
        writer: _PartWriter,
        text_moves: bool = False,
    ) -> None:
        self._source = source
        self._config = config
        self._guard = guard
        self._key = key
        self._writer = writer
        self._reader = SourceReader(source, Path(unit.root), config.decode, round(config.screen.max_megapixels * 1e6))
        self._id = hashed(key, "source", source.corpus, source.path)
        self._result = SourceResult(printable(source.path), source.corpus, self._id, text_moves=text_moves)
        self._audit = Audit(self._frames_to_audit(), config.screen.text)
        self._layouts: dict[tuple[int, int], Layout | None] = {}
        self._probes: list[NDArray[np.uint8]] = []
        self._repeated = RepeatedFrames(config.duplicates)

    def run(self) -> SourceResult:
        if self._source.kind != "image":
            self._probes = self._reader.probes(self._config.screen.probe_frames)
        for frame in self._reader.frames():
            self._result.seen += 1
            try:
                reason = self._screen(frame)
            except cv2.error as error:
                where = f"{self._source.corpus}/{self._source.path}, frame {frame.index}"
                raise RuntimeError(f"{where}: the screens failed on this image") from error
            if reason is None:
                self._result.kept += 1
            else:
                self._result.dropped[reason] += 1
        self._result.problems = {printable(file): why for file, why in self._reader.problems.items()}
        self._read_audit()
        return self._result

    def _screen(self, frame: Frame) -> str | None:
        """Write the frame to the part, or say why not."""
        source, layout = self._source, self._layout_for(frame.rgb)
        if layout is None:
            # Nothing is cropped here, so text could stand anywhere: the example is too coarse to read.
            return self._drop("no_field_of_view", cv2.resize(frame.rgb, (40, 32), interpolation=cv2.INTER_AREA))
        image = layout.blank(layout.crop(frame.rgb))
        quality = measure(image, layout.visible)
        reason = drop_reason(quality, self._config.screen.quality)
        if reason is not None:
            return self._drop(reason, image)
        if self._config.screen.foreign == "drop" and not is_endoscopy(measure_colors(image, layout.visible)):
            return self._drop("not_endoscopy", cv2.resize(image, (40, 32), interpolation=cv2.INTER_AREA))
        image_hash = perceptual_hash(cv2.bitwise_and(image, image, mask=layout.visible))
        if self._source.kind != "image":
            reason = self._repeated.drop_reason(image_hash)
            if reason is not None:
                return self._drop(reason, image)
        match = self._leak(frame.rgb, layout, image)
        if match is not None:
            leak = Leak(frame.index, printable(match.name), match.sha256, match.correlation)
            self._result.leaks.append(leak)
            beside = np.repeat(self._guard.grays[match.number][..., None], 3, axis=2)
            return self._drop("evaluation_image", image, beside)
        finished, filled = self._without_text(image, frame.rgb, layout)
        jpeg = simplejpeg.encode_jpeg(
            np.ascontiguousarray(finished), quality=self._config.shards.jpeg_quality, colorsubsampling="420"
        )
        if self._config.screen.text.reader == "filter" and read_jpeg(jpeg, self._config.screen.text).found:
            return self._drop("text", finished)
        self._repeated.keep(image_hash)
        order = hashed(self._key, "audit", self._id, frame.index)
        self._audit.offer(order, jpeg, lambda: layout.whole_at_output_scale(frame.rgb))
        row = self._row(frame, layout, image_hash, jpeg)
        self._writer.add(jpeg, {**row, **vars(quality), "text_filled": round(filled, 5)})
        self._example("kept", finished)
        if filled:
            self._example("text_removed", finished)
            self._writer.painted.offer("painted", source.corpus, self._id, order, finished, layout.crop(frame.rgb))
        return None

    def _layout_for(self, rgb: NDArray[np.uint8]) -> Layout | None:
        size = (rgb.shape[1], rgb.shape[0])
        single = self._source.kind == "image"
        if single or size not in self._layouts:
            probes = [probe for probe in self._probes if probe.shape == rgb.shape] or [rgb]
            screen = self._config.screen
            layout = find_layout(
                probes, screen.field_of_view, self._config.shards.longest_side_px, screen.position_box == "mask"
            )
            self._layouts[size] = layout
        return self._layouts[size]

    def _without_text(
        self, image: NDArray[np.uint8], rgb: NDArray[np.uint8], layout: Layout
    ) -> tuple[NDArray[np.uint8], float]:
        """The image with its text painted over, and the share of it that was.

        Where text stands is found when the first frame gets this far.
        """
        text = self._config.screen.text
        if text.inside == "keep":
            return image, 0.0
        if not layout.text_is_known:
            probes = [probe for probe in self._probes if probe.shape == rgb.shape] or [rgb]
            find_text_places(layout, probes, text)
            layout.text_moves |= self._result.text_moves
            self._result.text_moves = layout.text_moves
        return layout.without_text(image, text)

    def _leak(self, rgb: NDArray[np.uint8], layout: Layout, image: NDArray[np.uint8]) -> Match | None:
        """The guarded image that this is; also tried with the frame's own layout, as a film may show other images."""
        if not self._guard.names:
            return None
        self._result.compared += 1
        leakage = self._config.leakage
        match = self._guard.match(thumbnail_of(image, layout.visible), leakage)
        if match is not None or self._source.kind == "image":
            return match
        config = self._config
        view = detect_field_of_view([rgb], config.screen.field_of_view)
        if view is None or _nearly_equal(view.box, layout.view.box, max(rgb.shape)):
            return None
        own = find_layout([rgb], config.screen.field_of_view, config.shards.longest_side_px, True)
        if own is None:
            return None
        return self._guard.match(thumbnail_of(own.blank(own.crop(rgb)), own.visible), leakage)

    def _frames_to_audit(self) -> int:
        text = self._config.screen.text
        if text.reader != "audit":
            return 0
        if self._source.kind != "image":
            return text.audit_frames_per_source
        return int(int(hashed(self._key, "audit", self._id), 16) % 10_000 < 10_000 * text.audit_image_share)

    def _read_audit(self) -> None:
        self._result.audit, left = self._audit.read()
        for jpeg in left:
            self._example("text_left", simplejpeg.decode_jpeg(jpeg))

    def _row(self, frame: Frame, layout: Layout, image_hash: NDArray[np.uint8], jpeg: bytes) -> dict[str, Any]:
        source = self._source
        video = source.video if source.video is not None else source.path
        return {
            "key": hashed(self._key, "frame", source.corpus, source.path, frame.index),
            "corpus": source.corpus,
            "component": self._component(),
            "source": self._id,
            "video": hashed(self._key, "video", source.corpus, source.path if source.kind != "image" else video),
            "patient": self._patient(),
            "organ": source.organ,
            "licence": source.license,
            "frame": frame.index,
            "seconds": round(frame.seconds, 4),
            "original_width": frame.rgb.shape[1],
            "original_height": frame.rgb.shape[0],
            "crop": list(layout.view.box),
            "shape": layout.view.shape,
            "width": layout.out_size[0],
            "height": layout.out_size[1],
            "hash": image_hash.tobytes().hex(),
            "sha256": hashlib.sha256(jpeg).hexdigest(),
            "single": source.kind == "image",
        }

    def _component(self) -> str | None:
        """A name that the corpus itself publishes; a hash of any other."""
        component = self._source.component
        if component is None or is_public_component(component):
            return component
        return hashed(self._key, "component", self._source.corpus, component)

    def _patient(self) -> str | None:
        patient = self._source.patient
        return None if patient is None else hashed(self._key, "patient", self._source.corpus, patient)

    def _drop(self, reason: str, image: NDArray[np.uint8], beside: NDArray[np.uint8] | None = None) -> str:
        self._example(reason, image, beside)
        return reason

    def _example(self, reason: str, image: NDArray[np.uint8], beside: NDArray[np.uint8] | None = None) -> None:
        order = hashed(self._key, "example", self._id, self._result.seen)
        self._writer.examples.offer(reason, self._source.corpus, self._id, order, image, beside)


def _nearly_equal(one: tuple[int, ...], other: tuple[int, ...], side: int) -> bool:
    return max(abs(a - b) for a, b in zip(one, other, strict=True)) <= 0.03 * side
