"""`panendofm benchmark`: speeds of a release's formats, and of a video from file to finding."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
import torch
from test_compress import FORM, random_model

from panendofm.backbone import FeatureKind
from panendofm.backbone.command_config import ExportConfig
from panendofm.backbone.networks import find_network
from panendofm.backbone.release import export_release
from panendofm.deployment.benchmark import run_benchmark
from panendofm.deployment.compress import compress_release
from panendofm.deployment.config import FP16, FP32, TORCH, BenchmarkConfig, CompressConfig
from panendofm.deployment.results import BenchmarkResults, VideoSpeed
from panendofm.deployment.video import time_video
from panendofm.linear_probe.features import Columns
from panendofm.linear_probe.heads.head_file import HeadInfo, write_head_file
from panendofm.records.documents import read_document
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError

FRAMES = 12


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("benchmark")
    torch.save(random_model(FORM).state_dict(), folder / "weights.pt")
    plain = ExportConfig(str(folder / "plain"), formats=["hub", "onnx"], image_px=56)
    export_release(folder / "weights.pt", plain)
    compress_release(folder / "plain", CompressConfig(str(folder / "small"), formats=[FP16]))
    return folder / "small"


@pytest.fixture(scope="module")
def video(release: Path) -> Path:
    path = release.parent / "clip.mp4"
    rng = np.random.default_rng(0)
    shown = rng.integers(60, 200, (64, 96, 3), np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for number in range(FRAMES):
            frame = av.VideoFrame.from_ndarray(np.roll(shown, number, axis=1), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def config(out: Path, *words: str) -> BenchmarkConfig:
    return load_config(BenchmarkConfig, None, [f"out={out}", "threads=1", *words])


def test_every_format_batch_and_size(release: Path, tmp_path: Path) -> None:
    out = tmp_path / "speed.json"
    words = ("batch_sizes=[1,4]", "sides_px=[56]", "seconds=0.01", "repeats=1")
    results = run_benchmark(release, config(out, *words))
    assert read_document(BenchmarkResults, out, "results") == results
    places = [(cell.format, cell.batch_size, cell.side_px) for cell in results.cells]
    assert sorted(places) == sorted((name, batch, 56) for name in (TORCH, FP32, FP16) for batch in (1, 4))
    for cell in results.cells:
        assert 0 < cell.median_ms <= cell.p95_ms <= cell.p99_ms
        assert cell.images_per_second > 0 and cell.cpu_ms_per_image > 0
        assert (cell.speedup == 1.0) == (cell.format == TORCH)
    memory = {cell.format: cell.peak_memory_mb for cell in results.cells}
    assert 20 < memory[FP32] < memory[TORCH] - 50, "a process for a graph holds no torch"


def write_head(path: Path, release: Path) -> Path:
    network = find_network(str(release))
    info = HeadInfo(
        task="organ",
        classes=["stomach", "colon"],
        levels=[("", 0, 2)],
        exclusive=True,
        kind=FeatureKind(),
        columns=Columns("cls", 0, FORM.width),
        temperature=1.0,
        word="small",
        weights_sha256=network.weights_sha256,
        architecture=network.architecture,
    )
    write_head_file(path, "linear_probe_head", info, {"weight": torch.randn(FORM.width, 2), "bias": torch.zeros(2)})
    return path


def test_a_video_from_file_to_finding(release: Path, video: Path, tmp_path: Path) -> None:
    out, head = tmp_path / "video.json", write_head(tmp_path / "organ.safetensors", release)
    results = time_video(release, video, config(out, f"video={video}", f"head={head}", "frames=8"))
    assert read_document(VideoSpeed, out, "results") == results
    assert (results.width, results.height, results.video_fps, results.head) == (96, 64, 25.0, "organ")
    assert [cell.format for cell in results.cells] == [TORCH, FP32, FP16]
    for cell in results.cells:
        assert cell.frames == 8
        assert set(cell.mean_ms_of) == {"decoding", "cropping", "preparing", "network", "head"}
        whole = sum(cell.mean_ms_of.values())
        assert cell.frames_per_second == pytest.approx(1000 / whole)
        assert cell.keeps_up_with == {str(rate): 1000 / whole >= rate for rate in (25, 50, 60)}


def test_what_is_refused(release: Path, video: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.json"
    with pytest.raises(UserError, match="it is no release"):
        run_benchmark(tmp_path, config(out))
    with pytest.raises(UserError, match="has no onnx-int8"):
        run_benchmark(release, config(out, "formats=[onnx-int8]"))
    with pytest.raises(UserError, match="60 is no multiple of the patch"):
        run_benchmark(release, config(out, "sides_px=[60]"))
    with pytest.raises(UserError, match="name one by video="):
        config(out, "head=a.safetensors")
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(video.read_bytes()[:60])
    with pytest.raises(UserError, match=r"cannot read the video .*broken\.mp4"):
        time_video(release, broken, config(out, f"video={broken}"))
