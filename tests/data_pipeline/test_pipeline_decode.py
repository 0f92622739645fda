"""Decoding: the right frames, the right images, and what a broken file gives."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from data_pipeline.decode import DecodeConfig, DecodeError, Frame, frames_of, probe_frames
from panendofm.runtime.config import check_config
from panendofm.runtime.errors import UserError

FRAMES = 90


def scene(number: int) -> NDArray[np.uint8]:
    """An image that tells its number by its color and moves, so that B frames are worth while."""
    y, x = np.mgrid[0:64, 0:96]
    wave = 60 * np.sin((x + 3 * number) / 9) + 40 * np.cos(y / 7)
    return np.clip(np.stack([wave + 120, wave + 60 + number, 0 * wave + 2 * number], axis=-1), 0, 255).astype(np.uint8)


def write(
    path: Path,
    codec: str,
    gop: int,
    times_ms: list[int] | None = None,
    frames: int = FRAMES,
    b_frames: int = 0,
    options: str = "",
) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=30)
        stream.width, stream.height = 96, 64
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.codec_context.gop_size = gop
        stream.codec_context.max_b_frames = b_frames
        if codec == "libx264":
            stream.codec_context.options = {"x264-params": f"keyint={gop}:bframes=3:scenecut=0{options}"}
        if times_ms is not None:
            stream.codec_context.time_base = Fraction(1, 1000)
        for i in range(frames):
            frame = av.VideoFrame.from_ndarray(scene(i), format="rgb24")
            frame.pts = i if times_ms is None else times_ms[i]
            frame.time_base = Fraction(1, 30) if times_ms is None else Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def all_frames(path: Path) -> list[NDArray[np.uint8]]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


VIDEOS = {"long_gop": ("libx264", 90, "mp4"), "short_gop": ("libx264", 8, "mp4"), "mpeg4": ("mpeg4", 12, "avi")}
VIDEOS["intra"] = ("mjpeg", 1, "avi")


@pytest.fixture(scope="module", params=VIDEOS)
def video(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    codec, gop, suffix = VIDEOS[request.param]
    return write(tmp_path_factory.mktemp("videos") / f"{request.param}.{suffix}", codec, gop)


def assert_true_frames(path: Path, found: list[Frame]) -> None:
    """Index, time and pixels agree with a plain decode of the whole file."""
    whole = all_frames(path)
    for frame in found:
        assert np.array_equal(frame.rgb, whole[frame.index]), frame.index
        assert frame.seconds == pytest.approx(frame.index / 30, abs=0.002)


def torchcodec_is_here() -> bool:
    try:
        import torchcodec.decoders  # noqa: F401
    except (ImportError, RuntimeError):
        return False
    return True


WITH_TORCHCODEC = pytest.mark.skipif(not torchcodec_is_here(), reason="torchcodec is not installed")
BACKENDS = ["pyav", pytest.param("torchcodec", marks=WITH_TORCHCODEC)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_frames_per_second(video: Path, backend: str) -> None:
    found = list(frames_of(video, DecodeConfig(fps=4.0, backend=backend)))  # type: ignore[arg-type]
    assert [frame.index for frame in found] == [0, 8, 15, 23, 30, 38, 45, 53, 60, 68, 75, 83]
    assert_true_frames(video, found)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_nth_frame(video: Path, backend: str) -> None:
    found = list(frames_of(video, DecodeConfig(sampling="every", every_frames=7, backend=backend)))  # type: ignore[arg-type]
    assert [frame.index for frame in found] == list(range(0, 90, 7))
    assert_true_frames(video, found)


OPEN_GROUPS = {
    "h264": ("libx264", "mp4", {"options": ":open-gop=1"}),
    "h264_in_a_transport_stream": ("libx264", "ts", {"options": ":open-gop=1"}),
    "mpeg4": ("mpeg4", "mp4", {"b_frames": 2}),
}


@pytest.mark.parametrize("kind", OPEN_GROUPS)
def test_frames_that_follow_a_key_frame_in_the_file_but_are_shown_before_it(kind: str, tmp_path: Path) -> None:
    """They need the group before; a wanted one must not be lost, and the key frame's number counts them."""
    codec, suffix, how = OPEN_GROUPS[kind]
    path = write(tmp_path / f"v.{suffix}", codec, 12, **how)  # type: ignore[arg-type]
    with av.open(str(path)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    keys = [i for i, packet in enumerate(packets) if packet.is_keyframe]
    assert any(packets[i + 1].pts < packets[i].pts for i in keys), "the file has no such frames"
    for n in (5, 7, 12, 15):
        found = list(frames_of(path, DecodeConfig(sampling="every", every_frames=n)))
        assert [frame.index for frame in found] == list(range(0, FRAMES, n))
        assert_true_frames(path, found)
    for fps in (2.0, 2.5, 7.0):
        found = list(frames_of(path, DecodeConfig(fps=fps)))
        assert [frame.index for frame in found] == [
            int(np.ceil(30 * i / fps - 0.01)) for i in range(int(np.ceil(3 * fps)))
        ]
        assert_true_frames(path, found)
    found = list(frames_of(path, DecodeConfig(sampling="keyframes", fps=30.0)))
    assert len(found) == len(keys)
    assert_true_frames(path, found)


def test_decoding_goes_on_after_a_broken_packet(tmp_path: Path) -> None:
    path = write(tmp_path / "v.avi", "mpeg4", 15)
    whole = all_frames(path)
    with av.open(str(path)) as container:
        packets = [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.size]
    content = bytearray(path.read_bytes())
    place, size = packets[20]
    begin = content.index(b"00dc", place) + 8
    content[begin : begin + size] = b"\xff" * size
    path.write_bytes(content)
    found = []
    with pytest.raises(DecodeError, match=r"1 of 90 frames do not decode: Invalid data"):
        for frame in frames_of(path, DecodeConfig(fps=10.0)):
            found.append(frame)
    indices = [frame.index for frame in found]
    assert indices[:7] == [0, 3, 6, 9, 12, 15, 18] and indices[7:] == list(range(30, 90, 3))
    assert all(np.array_equal(frame.rgb, whole[frame.index]) for frame in found)


@pytest.mark.parametrize(("codec", "suffix"), [("libx264", "mp4"), ("libx264", "mkv"), ("mpeg4", "avi")])
def test_random_damage_ends_in_a_reason_or_in_frames(codec: str, suffix: str, tmp_path: Path) -> None:
    """Whatever is broken: nothing but `DecodeError` comes out, and many of the frames of most files do."""
    content = write(tmp_path / f"whole.{suffix}", codec, 15).read_bytes()
    random = np.random.default_rng(0)
    path, counts, reasons = tmp_path / f"broken.{suffix}", [], []
    for trial in range(20):
        damaged = np.frombuffer(content, np.uint8).copy()
        places = random.integers(0, len(damaged), (1, 3, 30)[trial % 3])
        damaged[places] = random.integers(0, 256, len(places), np.uint8)
        path.write_bytes(damaged[: None if trial % 5 else int(random.integers(1, len(damaged)))].tobytes())
        for sampling in ("fps", "every", "keyframes"):
            config = DecodeConfig(sampling=sampling, fps=10.0, every_frames=3)  # type: ignore[arg-type]
            found = []
            try:
                for frame in frames_of(path, config):
                    found.append(frame.index)
            except DecodeError as error:
                reasons.append(str(error))
            assert found == sorted(set(found)), "two frames of one number would have one name in the shards"
            if sampling == "fps":
                counts.append(len(found))
        probe_frames(path, 3)
    assert reasons and np.median(counts) >= 10, "of 30 in the whole file"


def test_keyframes_only(tmp_path: Path) -> None:
    path = write(tmp_path / "v.mp4", "libx264", 25)
    found = list(frames_of(path, DecodeConfig(sampling="keyframes", fps=30.0)))
    assert [frame.index for frame in found] == [0, 25, 50, 75]
    assert_true_frames(path, found)
    fewer = list(frames_of(path, DecodeConfig(sampling="keyframes", fps=0.5)))
    assert [frame.index for frame in fewer] == [0, 75], "no more than fps of them"


@pytest.mark.parametrize("backend", BACKENDS)
def test_variable_frame_rate_is_sampled_by_time(tmp_path: Path, backend: str) -> None:
    """The first half runs at 50 frames a second, the second at 10: both must give two frames a second."""
    times = [20 * i for i in range(50)] + [1000 + 100 * i for i in range(40)]
    path = write(tmp_path / "v.mkv", "libx264", 12, times)
    found = list(frames_of(path, DecodeConfig(fps=2.0, backend=backend)))  # type: ignore[arg-type]
    assert [round(frame.seconds, 2) for frame in found] == [0.5 * i for i in range(10)]
    whole = all_frames(path)
    shown = [0, 25, 50, 55, 60, 65, 70, 75, 80, 85]
    assert all(np.array_equal(frame.rgb, whole[index]) for frame, index in zip(found, shown, strict=True))
    if backend != "torchcodec":  # which does not know the numbers of frames
        assert [frame.index for frame in found] == shown


def test_truncated_video_yields_what_is_there_then_says_why(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.avi", "mjpeg", 1)
    cut = tmp_path / "cut.avi"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    found = []
    with pytest.raises(DecodeError, match=r"ends early|decoding stopped"):
        for frame in frames_of(cut, DecodeConfig(fps=10.0)):
            found.append(frame)
    assert 8 <= len(found) <= 16
    assert_true_frames(whole, found[:-1])


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "empty"), (b"just some text, no video at all" * 30, "cannot be opened")]
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_files_that_are_no_video(tmp_path: Path, content: bytes, reason: str, backend: str) -> None:
    path = tmp_path / "v.mp4"
    path.write_bytes(content)
    with pytest.raises(DecodeError, match=reason):
        list(frames_of(path, DecodeConfig(backend=backend)))  # type: ignore[arg-type]
    assert probe_frames(path, 3) == []


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])  # Matroska does not tell how long its streams are
def test_probes_are_spread_over_the_video(suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"v.{suffix}", "libx264", 10)
    blues = [int(np.median(frame[..., 2])) for frame in probe_frames(path, 3)]
    assert len(blues) == 3 and blues == sorted(blues) and blues[-1] - blues[0] > 80
    assert len(probe_frames(path, 50)) == 9, "each key frame once"


def test_contradictions_in_the_settings_are_named() -> None:
    for config, key in (
        (DecodeConfig(fps=0.0), "'fps' is 0.0"),
        (DecodeConfig(device="cuda"), "decode.backend=torchcodec"),
        (DecodeConfig(sampling="keyframes", backend="torchcodec"), "decode.backend=pyav"),
    ):
        with pytest.raises(UserError, match=key):
            check_config(config)


@pytest.mark.skipif(torchcodec_is_here(), reason="torchcodec is installed here")
def test_a_backend_that_is_not_installed_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "v.avi", "mjpeg", 1, frames=3)
    with pytest.raises(UserError, match=r"decode.backend=torchcodec: .* set backend=pyav"):
        list(frames_of(path, DecodeConfig(backend="torchcodec")))
