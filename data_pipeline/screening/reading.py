"""The frames of any source, videos and images alike, and why some could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data_pipeline.decode import DecodeConfig, DecodeError, Frame, frames_of, probe_frames
from data_pipeline.sources import Source
from panendofm.imaging.images import MAX_PIXELS, UnreadableImageError, decode_image

_MAGIC = {
    "JPEG image": (b"\xff\xd8\xff",),
    "PNG image": (b"\x89PNG\r\n\x1a\n",),
    "TIFF image": (b"II*\0", b"MM\0*"),
    "BMP image": (b"BM",),
}
_SUFFIXES = {
    ".jpg": "JPEG image",
    ".jpeg": "JPEG image",
    ".png": "PNG image",
    ".tif": "TIFF image",
    ".tiff": "TIFF image",
    ".bmp": "BMP image",
}


class SourceReader:
    """Reads one source; `problems` tells afterwards which of its files are broken and why."""

    def __init__(self, source: Source, root: Path, config: DecodeConfig, max_pixels: int = MAX_PIXELS) -> None:
        self._source = source
        self._root = root
        self._config = config
        self._max_pixels = max_pixels
        self.problems: dict[str, str] = {}

    def probes(self, count: int) -> list[NDArray[np.uint8]]:
        """A few frames spread over the source; none of a single image, which is its own probe."""
        if self._source.kind == "video":
            path = self._root / self._source.path
            try:
                return probe_frames(path, count) if path.stat().st_size and _content_of(path) is None else []
            except OSError:
                return []  # `frames` meets the same error and says so
        files = self._source.files
        chosen = sorted({round(i * (len(files) - 1) / max(1, count - 1)) for i in range(count)})
        read = (_read_image(self._root / files[i].path, self._max_pixels)[0] for i in chosen)
        return [image for image in read if image is not None]

    def frames(self) -> Iterator[Frame]:
        """The wanted frames in order."""
        if self._source.kind == "video":
            yield from self._video()
        else:
            step = self._config.sequence_every_frames if self._source.kind == "sequence" else 1
            for index, file in list(enumerate(self._source.files))[::step]:
                image, problem = _read_image(self._root / file.path, self._max_pixels)
                if problem is not None:
                    self.problems[file.path] = problem
                if image is not None:
                    yield Frame(index, 0.0, image)

    def _video(self) -> Iterator[Frame]:
        path = self._root / self._source.path
        try:
            content = _content_of(path)
            if content is not None:
                raise DecodeError(f"is not a video but a {content}")
            yield from frames_of(path, self._config)
        except (DecodeError, OSError) as error:
            self.problems[self._source.path] = str(error)


def _content_of(path: Path) -> str | None:
    """What a file is by its first bytes, when that is an image."""
    with path.open("rb") as stream:
        head = stream.read(16)
    return next((what for what, starts in _MAGIC.items() if head.startswith(starts)), None)


def _read_image(path: Path, max_pixels: int) -> tuple[NDArray[np.uint8] | None, str | None]:
    """An RGB image [H, W, 3] without its metadata, and what is wrong with the file, if anything."""
    try:
        content = path.read_bytes()
        image = decode_image(content, path.name, max_pixels)
    except OSError as error:
        return None, f"cannot be read: {error.strerror}"
    except UnreadableImageError as error:
        return None, f"cannot be read: {error.problem}"
    actual = next((what for what, starts in _MAGIC.items() if content.startswith(starts)), None)
    expected = _SUFFIXES.get(path.suffix.lower())
    is_other = expected is not None and actual is not None and actual != expected
    return image, f"is a {actual}, not what its name says" if is_other else None
