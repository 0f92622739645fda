"""The pipeline's speed beside plain decoding and beside the usual way, as ratios measured in one run.

    python -m benchmarks.data_pipeline [--seconds 60] [--videos 4] [--repeats 2] [--memory-videos 100] [--files 100000]

Made-up 720p H.264 videos of 25 frames a second: short groups (a key frame every two seconds, as recorders write them)
and long ones (every 250 frames, x264's default). Every side works on the same videos with two processes:
  decoding alone   our decoder at the same sampling; the frames are thrown away
  pipeline         all that `shard` does, from the plan to checksums and report, on a Ray that is up already
  usual way        OpenCV reads every frame, imwrite of one a second, then tar
Both wall time and processor time (of all processes, Ray's own included) are given: other work on the machine lengthens
the first and hardly changes the second.
The text detector and the guard are off, since the other sides have neither; one more line shows what they cost.
The videos of a kind are links to one file; copies across the run are kept, so that all frames are written.
Then: the time to plan many files, and the peak memory of a worker after 1 and after many videos.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.pool import Pool
from pathlib import Path

import av
import cv2
import numpy as np

from benchmarks.figures import Figure, Size
from data_pipeline import CorpusConfig, PipelineConfig, plan, shard
from data_pipeline.cluster import start_local
from data_pipeline.decode import DecodeConfig, frames_of
from data_pipeline.planning import fingerprint
from data_pipeline.screening.screen_sources import process_unit
from panendofm.imaging.leakage import build_guard

FPS, WIDTH, HEIGHT, PROCESSES = 25, 1280, 720, 2
SHORT_GROUP, LONG_GROUP = 50, 250  # frames


def make_video(path: Path, seconds: int, group: int) -> None:
    """A textured scene in a round field of view that drifts and turns, with sensor noise."""
    random = np.random.default_rng(0)
    texture = sum(
        cv2.resize(random.normal(0, 40 / n, (9 * n, 16 * n, 3)), (2 * WIDTH, 2 * HEIGHT), interpolation=cv2.INTER_CUBIC)
        for n in (1, 3, 9, 27)
    )
    texture = np.clip(texture + np.array([150, 90, 75]), 0, 255).astype(np.uint8)
    view = np.zeros((HEIGHT, WIDTH), np.uint8)
    cv2.circle(view, (WIDTH // 2, HEIGHT // 2), 380, 255, -1)
    noise = [np.repeat(random.normal(0, 6.5, (HEIGHT, WIDTH, 1)).astype(np.int16), 3, axis=2) for _ in range(8)]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.options = {
            "preset": "veryfast",
            "x264-params": f"keyint={group}:min-keyint={group}:scenecut=0",
        }
        for i in range(seconds * FPS):
            angle, x, y = 40 * np.sin(i / 90), 300 * np.sin(i / 70), 200 * np.cos(i / 50)
            turn = cv2.getRotationMatrix2D((WIDTH, HEIGHT), angle, 1.0)
            turn[:, 2] += [x - WIDTH / 2, y - HEIGHT / 2]
            frame = cv2.warpAffine(texture, turn, (WIDTH, HEIGHT), borderMode=cv2.BORDER_REFLECT)
            frame = cv2.add(frame, noise[i % 8], dtype=cv2.CV_8U)
            image = av.VideoFrame.from_ndarray(cv2.bitwise_and(frame, frame, mask=view), format="rgb24")
            container.mux(stream.encode(image))
        container.mux(stream.encode())


def config_for(folder: Path, out: Path, sampling: str, screens: bool = False) -> PipelineConfig:
    """All defaults, but for what the text above names."""
    config = PipelineConfig(data_root=str(folder.parent), out=str(out))
    config.corpora = {"videos": CorpusConfig("folder", folder.name, license="none")}
    config.decode.sampling = sampling  # type: ignore[assignment]
    config.duplicates.video_share = 1.1
    config.ray.workers = PROCESSES
    if not screens:
        config.screen.text.inside, config.screen.text.reader = "keep", "none"
    return config


def run_pipeline(folder: Path, sampling: str, guard: Path | None = None) -> int:
    with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(io.StringIO()):
        config = config_for(folder, Path(scratch) / "out", sampling, screens=guard is not None)
        config.leakage.guard = [] if guard is None else [str(guard)]
        return shard(config).frames


def decode_one(path: Path, sampling: str) -> int:
    return sum(1 for _ in frames_of(path, DecodeConfig(sampling=sampling)))  # type: ignore[arg-type]


def decode_alone(pool: Pool, folder: Path, sampling: str) -> int:
    return sum(pool.map(partial(decode_one, sampling=sampling), sorted(folder.iterdir()), chunksize=1))


def extract_one(path: Path, scratch: str) -> int:
    """OpenCV reads every frame; one a second is written as JPEG."""
    capture, index = cv2.VideoCapture(str(path)), 0
    while True:
        good, frame = capture.read()
        if not good:
            return -(-index // FPS)
        if index % FPS == 0:
            cv2.imwrite(f"{scratch}/{path.stem}_{index}.jpg", frame)
        index += 1


def usual_way(pool: Pool, folder: Path) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        written = sum(pool.map(partial(extract_one, scratch=scratch), sorted(folder.iterdir()), chunksize=1))
        with tarfile.open(f"{scratch}/all.tar", "w") as tar:
            for image in sorted(Path(scratch).glob("*.jpg")):
                tar.add(image, image.name)
    return written


def processor_seconds() -> float:
    """Of this process and all below it, so far: the pool's, Ray's, and those that have ended."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it ended meanwhile
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                used[int(entry.name)] = sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    own = {os.getpid()}
    while below := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= below
    return sum(used.get(pid, 0.0) for pid in own)


def times_of(
    sides: dict[str, Callable[[], int]], repeats: int
) -> tuple[dict[str, float], dict[str, float], dict[str, int]]:
    """By side: the best seconds by the clock and of processors, and how many frames there were."""
    wall, processor = dict.fromkeys(sides, float("inf")), dict.fromkeys(sides, float("inf"))
    frames = dict.fromkeys(sides, 0)
    for _ in range(repeats):
        for name, side in sides.items():
            began, began_processor = time.perf_counter(), processor_seconds()
            frames[name] = side()
            wall[name] = min(wall[name], time.perf_counter() - began)
            processor[name] = min(processor[name], processor_seconds() - began_processor)
    return wall, processor, frames


def compare(pool: Pool, short: Path, long: Path, guard: Path, repeats: int) -> None:
    """Best of some repeats each, taken in turns."""
    sides: dict[str, Callable[[], int]] = {
        "decoding alone, 1 frame/s, short groups": lambda: decode_alone(pool, short, "fps"),
        "pipeline,       1 frame/s, short groups": lambda: run_pipeline(short, "fps"),
        "usual way,      1 frame/s, short groups": lambda: usual_way(pool, short),
        "decoding alone, 1 frame/s, long groups": lambda: decode_alone(pool, long, "fps"),
        "pipeline,       1 frame/s, long groups": lambda: run_pipeline(long, "fps"),
        "usual way,      1 frame/s, long groups": lambda: usual_way(pool, long),
        "pipeline,       key frames, long groups": lambda: run_pipeline(long, "keyframes"),
        "pipeline with text screens and guard": lambda: run_pipeline(short, "fps", guard),
    }
    wall, processor, frames = times_of(sides, repeats)
    for name in sides:
        print(f"{name:40s} {wall[name]:6.2f} s  {processor[name]:6.2f} s of processors  {frames[name]:4d} frames")
    for what, times in (("wall time", wall), ("processor time", processor)):
        alone, whole, usual, alone_long, whole_long, usual_long, keys, _ = times.values()
        print(f"in {what}, the pipeline against")
        print(f"  decoding alone, 1 frame/s: {alone / whole:.2f}, on long groups {alone_long / whole_long:.2f} (0.7)")
        print(f"  the usual way, 1 frame/s: {usual / whole:.1f}x, on long groups {usual_long / whole_long:.1f}x (2x)")
        print(f"  the usual way, key frames of long groups: {usual_long / keys:.1f}x (8x)", flush=True)


def figures(size: Size) -> list[Figure]:
    """As ratios of the CPU seconds of all processes, Ray's own included."""
    os.environ.setdefault("RAY_worker_niceness", "0")
    seconds, videos, repeats = (20, 2, 1) if size == "small" else (60, 4, 2)
    scratch = Path(tempfile.mkdtemp(prefix="benchmark-"))
    try:
        with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
            made = scratch / "short.mp4"
            make_video(made, seconds, SHORT_GROUP)
            start_local(PROCESSES, 200)
            folder, guard = links_to(made, videos, scratch / "short"), make_guard(scratch / "guard")
            # Ray's workers and the pool's import what they need.
            run_pipeline(folder, "fps", guard)
            decode_alone(pool, folder, "fps")
            sides: dict[str, Callable[[], int]] = {
                "decoding": lambda: decode_alone(pool, folder, "fps"),
                "pipeline": lambda: run_pipeline(folder, "fps"),
                "with screens": lambda: run_pipeline(folder, "fps", guard),
                "usual way": lambda: usual_way(pool, folder),
            }
            _, processor, _ = times_of(sides, repeats)
    finally:
        shutil.rmtree(scratch)
    screened = processor["with screens"] / processor["decoding"]
    alone = f"decoding alone: {videos} videos of {seconds} s, 720p, a frame a second"
    usual = "OpenCV reads every frame, imwrite, tar"
    return [
        Figure("a unit", processor["pipeline"] / processor["decoding"], "×", alone, 1 / 0.7),
        Figure("a unit with text screens and guard", screened, "×", alone, 1.6),
        Figure("times as fast", processor["usual way"] / processor["pipeline"], "×", usual, 2.0, "higher"),
    ]


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
    for unit in made.units:
        fingerprint(unit.sources)
    took, took_cpu = time.perf_counter() - began, time.process_time() - began_cpu
    count = sum(len(source.files) for source in made.sources)
    print(f"planning {count:,} files: {took:.1f} s, {took_cpu:.1f} s of the processor (wanted: under 15 s)", flush=True)


def peak_memory_mb(folder: str, queue: multiprocessing.Queue[float]) -> None:
    """What a worker does for each video, one after the other."""
    with tempfile.TemporaryDirectory() as parts:
        config, guard = config_for(Path(folder), Path(parts), "fps"), build_guard([])
        for unit in plan(config).units:
            process_unit(unit, config, guard, b"k" * 32, Path(parts) / str(unit.number))
    # Not getrusage: its peak includes what the parent held when this process was forked from it.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak_kb = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    queue.put(int(peak_kb) / 1024)


def memory(video: Path, counts: tuple[int, ...], scratch: Path) -> None:
    """Peak memory of a fresh process that works through one video, and through many."""
    context = multiprocessing.get_context("spawn")
    for count in counts:
        queue: multiprocessing.Queue[float] = context.Queue()
        folder = links_to(video, count, scratch / f"memory{count}")
        process = context.Process(target=peak_memory_mb, args=(str(folder), queue))
        process.start()
        print(f"peak memory of a worker after {count:3d} videos: {queue.get():.0f} MB", flush=True)
        process.join()


def links_to(video: Path, count: int, folder: Path) -> Path:
    folder.mkdir()
    for i in range(count):
        os.link(video, folder / f"{i:03d}.mp4")
    return folder


def make_guard(folder: Path, images: int = 100) -> Path:
    folder.mkdir()
    random = np.random.default_rng(1)
    for number in range(images):
        small = random.uniform(40, 220, (24, 24, 3)).astype(np.float32)
        large = cv2.resize(small, (512, 512), interpolation=cv2.INTER_LINEAR)
        cv2.imwrite(str(folder / f"{number}.png"), large.astype(np.uint8))
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="length of a video")
    parser.add_argument("--videos", type=int, default=4, help="of each kind")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--memory-videos", type=int, default=100)
    parser.add_argument("--files", type=int, default=100_000, help="for the planning measurement")
    arguments = parser.parse_args()
    os.environ.setdefault("RAY_worker_niceness", "0")  # else Ray's workers give way to all else on the machine
    scratch = Path(tempfile.mkdtemp(prefix="benchmark-"))
    try:
        with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
            lengths = [arguments.seconds, arguments.seconds, 4]
            videos = [scratch / name for name in ("short.mp4", "long.mp4", "clip.mp4")]
            groups = [SHORT_GROUP, LONG_GROUP, SHORT_GROUP]
            pool.starmap(make_video, zip(videos, lengths, groups, strict=True), chunksize=1)
            for video, seconds, group in zip(videos, lengths, groups, strict=True):
                rate = 8e-6 * video.stat().st_size / seconds
                print(f"{video.stem}: {seconds} s, {WIDTH}x{HEIGHT}, {rate:.1f} Mb/s, key frame every {group} frames")
            began = time.perf_counter()
            start_local(PROCESSES, 200)
            short, long = (links_to(video, arguments.videos, scratch / video.stem) for video in videos[:2])
            run_pipeline(links_to(videos[2], 2, scratch / "first"), "fps")  # the workers import what they need
            print(f"Ray's start and its workers' imports: {time.perf_counter() - began:.1f} s (not counted below)")
            compare(pool, short, long, make_guard(scratch / "guard"), arguments.repeats)
        plan_many(arguments.files, scratch)
        memory(videos[2], (1, arguments.memory_videos), scratch)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
