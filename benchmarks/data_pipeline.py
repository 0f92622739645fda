"""The pipeline's speed beside plain decoding and beside the usual way, as ratios measured in one run.

    python -m benchmarks.data_pipeline [--seconds 60] [--repeats 3] [--videos 100] [--files 100000]

Made-up 720p H.264 videos, one with a key frame every two seconds and one with a key frame every ten:
  pipeline against decoding alone, at the same sampling of one frame a second;
  pipeline against the usual way (OpenCV reads every frame, imwrite of one a second, then tar), at one frame a second
  and, on the long groups of pictures, with key frames only.
What is compared is the processor time of all threads: it says how much two cores get done, and other work on the
machine does not disturb it. The text detector and reader are left out, since the other sides have none.
Then: the time to plan many files, and the peak memory of a worker after 1 and after many videos.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import av
import cv2
import numpy as np

from data_pipeline import CorpusConfig, PipelineConfig, plan
from data_pipeline.decode import frames_of
from data_pipeline.leakage import build_guard
from data_pipeline.planning import fingerprint
from data_pipeline.work import process_unit

FPS, WIDTH, HEIGHT = 25, 1280, 720


def make_video(path: Path, seconds: int, keyframe_seconds: int = 10) -> None:
    """A textured scene in a round field of view that drifts and turns, with sensor noise."""
    random = np.random.default_rng(0)
    texture = sum(
        cv2.resize(random.normal(0, 40 / n, (9 * n, 16 * n, 3)), (2 * WIDTH, 2 * HEIGHT), interpolation=cv2.INTER_CUBIC)
        for n in (1, 3, 9, 27)
    )
    texture = np.clip(texture + np.array([150, 90, 75]), 0, 255).astype(np.uint8)
    view = np.zeros((HEIGHT, WIDTH), np.uint8)
    cv2.circle(view, (WIDTH // 2, HEIGHT // 2), 380, 255, -1)
    noise = random.normal(0, 5, (8, HEIGHT, WIDTH, 1)).astype(np.int16)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.gop_size = keyframe_seconds * FPS
        stream.codec_context.options = {
            "preset": "veryfast",
            "x264-params": f"keyint={keyframe_seconds * FPS}:min-keyint={keyframe_seconds * FPS}:scenecut=0",
        }
        for i in range(seconds * FPS):
            angle, x, y = 40 * np.sin(i / 90), 300 * np.sin(i / 70), 200 * np.cos(i / 50)
            turn = cv2.getRotationMatrix2D((WIDTH, HEIGHT), angle, 1.0)
            turn[:, 2] += [x - WIDTH / 2, y - HEIGHT / 2]
            frame = cv2.warpAffine(texture, turn, (WIDTH, HEIGHT), borderMode=cv2.BORDER_REFLECT)
            frame = np.clip(frame + noise[i % 8], 0, 255).astype(np.uint8)
            picture = av.VideoFrame.from_ndarray(cv2.bitwise_and(frame, frame, mask=view), format="rgb24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode())


def config_for(folder: Path, sampling: str) -> PipelineConfig:
    config = PipelineConfig(data_root=str(folder.parent), out=str(folder.parent / "out"))
    config.corpora = {"videos": CorpusConfig("folder", folder.name, licence="none")}
    config.decode.sampling = sampling  # type: ignore[assignment]
    config.screen.text.inside, config.screen.text.reader = "keep", "none"
    return config


def run_pipeline(folder: Path, sampling: str) -> int:
    """All that a worker does for each video, from the file to its part of the shards."""
    config = config_for(folder, sampling)
    guard, seen = build_guard([]), 0
    with tempfile.TemporaryDirectory() as parts:
        for unit in plan(config).units:
            seen += process_unit(unit, config, guard, b"k" * 32, Path(parts) / str(unit.number))
    return seen


def decode_alone(folder: Path, sampling: str) -> int:
    config = config_for(folder, sampling)
    return sum(1 for path in sorted(folder.iterdir()) for _ in frames_of(path, config.decode))


def usual_way(folder: Path) -> int:
    """OpenCV reads every frame; one a second is written as JPEG; the JPEGs are put into a tar file."""
    written = 0
    with tempfile.TemporaryDirectory() as scratch:
        for path in sorted(folder.iterdir()):
            capture, index = cv2.VideoCapture(str(path)), 0
            while True:
                good, frame = capture.read()
                if not good:
                    break
                if index % FPS == 0:
                    cv2.imwrite(f"{scratch}/{path.stem}_{index}.jpg", frame)
                    written += 1
                index += 1
        with tarfile.open(f"{scratch}/all.tar", "w") as tar:
            for picture in sorted(Path(scratch).glob("*.jpg")):
                tar.add(picture, picture.name)
    return written


def timed(function: Callable[[], int]) -> tuple[float, int]:
    """Processor seconds of all threads of this process, and what the function returned."""
    began = time.process_time()
    count = function()
    return time.process_time() - began, count


def compare(short: Path, long: Path, repeats: int) -> None:
    """Best of some repeats each, taken in turns."""
    sides: dict[str, Callable[[], int]] = {
        "decoding alone, 1 frame/s": lambda: decode_alone(short, "fps"),
        "pipeline, 1 frame/s": lambda: run_pipeline(short, "fps"),
        "usual way, 1 frame/s": lambda: usual_way(short),
        "pipeline, key frames": lambda: run_pipeline(long, "keyframes"),
        "usual way, long groups": lambda: usual_way(long),
    }
    best = dict.fromkeys(sides, (float("inf"), 0))
    for _ in range(repeats):
        for name, side in sides.items():
            best[name] = min(best[name], timed(side))
    for name, (seconds, frames) in best.items():
        print(f"{name:26s} {seconds:6.2f} s  {frames:4d} frames", flush=True)
    alone, whole, usual, keys, usual_long = (best[name][0] for name in sides)
    print(f"pipeline against decoding alone: {alone / whole:.2f} (wanted: at least 0.7)")
    print(f"pipeline against the usual way, 1 frame/s: {usual / whole:.1f}x (wanted: at least 2x)")
    print(f"pipeline against the usual way, key frames: {usual_long / keys:.1f}x (wanted: at least 8x)", flush=True)


def plan_many(files: int, scratch: Path) -> None:
    root = scratch / "many"
    for study in range(files // 500):
        folder = root / f"s{study:03d}" / "3_small_bowel"
        folder.mkdir(parents=True)
        for i in range(500):
            (folder / f"image-{i:05d}.png").touch()
    config = PipelineConfig(data_root=str(scratch), corpora={"ri-vce": CorpusConfig("ri-vce", "many")})
    began, began_cpu = time.perf_counter(), time.process_time()
    made = plan(config)
    fingerprint(made)
    took, took_cpu = time.perf_counter() - began, time.process_time() - began_cpu
    count = sum(len(source.files) for source in made.sources)
    print(f"planning {count:,} files: {took:.1f} s, {took_cpu:.1f} s of the processor (wanted: under 15 s)", flush=True)


def peak_memory_mb(folder: str, queue: multiprocessing.Queue[float]) -> None:
    run_pipeline(Path(folder), "fps")
    # Not getrusage: its peak includes what the parent held when this process was forked from it.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak_kb = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    queue.put(int(peak_kb) / 1024)


def memory(video: Path, counts: tuple[int, ...], scratch: Path) -> None:
    """Peak memory of a fresh process that works through one video, and through many."""
    context = multiprocessing.get_context("spawn")
    for count in counts:
        folder = scratch / f"memory{count}"
        folder.mkdir()
        for i in range(count):
            os.link(video, folder / f"{i:03d}.mp4")
        queue: multiprocessing.Queue[float] = context.Queue()
        process = context.Process(target=peak_memory_mb, args=(str(folder), queue))
        process.start()
        print(f"peak memory of a worker after {count:3d} videos: {queue.get():.0f} MB", flush=True)
        process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="length of the video")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--videos", type=int, default=100, help="for the memory measurement")
    parser.add_argument("--files", type=int, default=100_000, help="for the planning measurement")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    scratch = Path(tempfile.mkdtemp(prefix="benchmark-"))
    try:
        folders = {2: scratch / "short_groups", 10: scratch / "long_groups"}
        for keyframe_seconds, folder in folders.items():
            folder.mkdir()
            make_video(folder / "video.mp4", arguments.seconds, keyframe_seconds)
            rate = 8e-6 * (folder / "video.mp4").stat().st_size / arguments.seconds
            print(
                f"video: {arguments.seconds} s, {WIDTH}x{HEIGHT}, {rate:.1f} Mb/s, key frame every {keyframe_seconds} s"
            )
        compare(folders[2], folders[10], arguments.repeats)
        plan_many(arguments.files, scratch)
        make_video(scratch / "short.mp4", 4, 2)
        memory(scratch / "short.mp4", (1, arguments.videos), scratch)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
