"""Videos that are not what their name says, and clocks that start anew."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from data_pipeline.decode.config import DecodeConfig
from data_pipeline.decode.interface import DecodeError, frames_of
from panendofm.imaging.videos import SteadyClock, open_video
from panendofm.linear_probe.inference.video import frames_at


def write_video(path: Path, side: int, kind: str = "mp4", frames: int = 25) -> Path:
    with av.open(str(path), "w", format=kind) as container:
        stream = container.add_stream("mpeg2video" if kind == "mpegts" else "libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = side, side, "yuv420p"
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(np.full((side, side, 3), 5 * number, np.uint8), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def test_a_playlist_is_no_video(tmp_path: Path) -> None:
    write_video(tmp_path / "secret.mp4", 64)
    playlist = tmp_path / "x.mp4"
    playlist.write_text("ffconcat version 1.0\nfile secret.mp4\n", encoding="utf-8")
    with pytest.raises(DecodeError, match="cannot be opened"):
        list(frames_of(playlist, DecodeConfig()))
    hls = tmp_path / "y.mp4"
    hls.write_text("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nsecret.mp4\n#EXT-X-ENDLIST\n", encoding="utf-8")
    with pytest.raises((av.FFmpegError, ValueError)):
        open_video(hls).close()
    with open_video(tmp_path / "secret.mp4") as container:
        assert len(container.streams.video) == 1


@pytest.mark.parametrize("sampling", ["fps", "every", "keyframes"])
def test_two_recordings_in_one_stream_are_both_read(tmp_path: Path, sampling: str) -> None:
    """Another size, and a clock that begins anew, as a recorder leaves them that was switched over."""
    parts = [write_video(tmp_path / f"{side}.ts", side, "mpegts") for side in (128, 64)]
    joined = tmp_path / "joined.ts"
    joined.write_bytes(b"".join(part.read_bytes() for part in parts))
    frames = list(frames_of(joined, DecodeConfig(sampling=sampling, fps=5, every_frames=5)))
    sides = [frame.rgb.shape[0] for frame in frames]
    assert abs(sides.count(128) - sides.count(64)) <= 1 and min(sides.count(128), sides.count(64)) >= 2
    times = [frame.seconds for frame in frames]
    assert times == sorted(times) and 1.7 <= times[-1] <= 2
    seen = [frame.image.size[0] for frame in frames_at(joined, 5)]
    assert 4 <= seen.count(64) <= 6


def test_frames_out_of_order_and_gaps_are_left_as_they_are() -> None:
    clock = SteadyClock()
    assert [clock.shift(time) for time in (0.0, 0.12, 0.04, 0.08, 0.24, 9.0, 8.9)] == [0.0] * 7
    assert clock.shift(0.0) == pytest.approx(9.12)
