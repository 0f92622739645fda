"""`linear_probe dense` as users type it: second runs, kills, bad input, predictions of images and of a video."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from dense_sets import blob, write_set

from panendofm.linear_probe.dense.__main__ import STAGE
from panendofm.runtime.command_line import run_stage

COMMAND = (sys.executable, "-m", "panendofm.linear_probe.dense")
FAST = ("side_px=128", "bootstrap.replicates=50", "fit.strengths=[0.001]")


@dataclass(frozen=True)
class Done:
    stdout: str
    stderr: str


def run(*words: str, code: int = 0) -> Done:
    """The command in this process: starting one costs seconds. Kills and the first run use real processes."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        run_stage(STAGE, words)
    assert ended.value.code == code, out.getvalue()[-2000:] + err.getvalue()
    return Done(out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("dense_command")
    data = write_set(folder / "Blobs", 30)
    subprocess.run([*COMMAND, "pixels", f"data=[{data}]", f"out={folder / 'out'}", *FAST], check=True)
    return data, folder / "out"


def figures(out: Path) -> object:
    return json.loads((out / "results.json").read_text())["results"]


def test_a_second_run_takes_the_cache_and_gives_the_same(trained: tuple[Path, Path], tmp_path: Path) -> None:
    data, out = trained
    assert (out / "index.html").is_file() and (out / "table.md").read_text().startswith("| network | Blobs: mDice")
    assert json.loads((out / "results.json").read_text())["networks"][0]["grid"] == [16, 16]
    before = figures(out)
    again = run("pixels", f"data=[{data}]", f"out={out}", *FAST)
    assert "1 of 1 networks from the cache" in again.stdout
    assert figures(out) == before


def test_a_killed_run_is_repeated_from_where_it_is_safe(trained: tuple[Path, Path], tmp_path: Path) -> None:
    data, out = trained
    words = ["pixels", f"data=[{data}]", f"out={tmp_path / 'out'}", *FAST, "batch_size=1"]
    process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, text=True)
    features = tmp_path / "out" / "features"
    deadline = time.monotonic() + 120
    # As soon as the maps are being written, or have just been.
    while not (features.is_dir() and any(features.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "out" / "results.json").exists()
    run(*words)
    assert figures(tmp_path / "out") == figures(out)
    assert not [p for p in features.iterdir() if ".partial-" in p.name]


def test_images_are_predicted_as_files_that_challenge_reads(trained: tuple[Path, Path], tmp_path: Path) -> None:
    out = trained[1]
    head = out / "heads" / "pixels" / "dense.safetensors"
    images = tmp_path / "images"
    (images / "deep").mkdir(parents=True)
    for number, name in enumerate(("A.PNG", "deep/b.c.jpg")):
        cv2.imwrite(str(images / name), blob(211, 149, 500 + number)[0])
    run("predict", str(head), str(images), f"out={tmp_path / 'told'}")
    with (tmp_path / "told" / "masks.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["file"] for row in rows} == {"A.PNG", "deep/b.c.jpg"}
    assert {row["mask"] for row in rows} == {"masks/A.png", "masks/deep/b.c.png"}
    for row in rows:
        values = cv2.imread(str(tmp_path / "told" / row["mask"]), cv2.IMREAD_GRAYSCALE)
        assert values.shape == (149, 211) and set(np.unique(values).tolist()) == {0, 255}
    truth = ["file,frame,category,mask,polygon"]
    for number, name in enumerate(("A.PNG", "deep/b.c.jpg")):
        cv2.imwrite(str(tmp_path / f"t{number}.png"), blob(211, 149, 500 + number)[1])
        truth.append(f"{name},0,polyp,t{number}.png,")
    (tmp_path / "truth.csv").write_text("\n".join(truth) + "\n")
    words = ["panendofm.challenge", "score", str(tmp_path / "told" / "masks.csv"), f"truth={tmp_path / 'truth.csv'}"]
    scored = subprocess.run(
        [sys.executable, "-m", *words, "match=path", f"out={tmp_path / 'scored'}", "bootstrap.replicates=10"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert scored.returncode == 0, scored.stderr
    scores = json.loads((tmp_path / "scored" / "results.json").read_text())["scores"]
    means = scores["per_class"]["polyp"]["mean_over_images"]
    assert means["iou"]["value"] > 0.8


def test_a_video_is_drawn_frame_by_frame(trained: tuple[Path, Path], tmp_path: Path) -> None:
    out = trained[1]
    image, mask = blob(161, 121, 77)
    with av.open(str(tmp_path / "in.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = 160, 120, "yuv420p", 4_000_000
        for _ in range(5):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image[:120, :160], format="rgb24")))
        container.mux(stream.encode())
    head = str(out / "heads" / "pixels" / "dense.safetensors")
    done = run("predict", head, f"video={tmp_path / 'in.mp4'}", f"out={tmp_path / 'out.mp4'}")
    assert "5 frames" in done.stdout and "frames a second" in done.stdout
    with av.open(str(tmp_path / "out.mp4")) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        assert float(container.streams.video[0].average_rate or 0) == pytest.approx(10, rel=0.01)
    assert len(frames) == 5 and frames[0].shape == (120, 160, 3)
    red = (frames[0][..., 0].astype(int) - frames[0][..., 1] > 60) & (frames[0][..., 0] > 120)
    edge = cv2.morphologyEx(mask[:120, :160], cv2.MORPH_GRADIENT, np.ones((13, 13))) > 0
    assert red.sum() > 40 and (red & edge).sum() > 0.8 * red.sum()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.mp4", "out.mp4"]
    (tmp_path / "no.mp4").write_bytes(b"nothing")
    assert "no.mp4" in run("predict", head, f"video={tmp_path / 'no.mp4'}", f"out={tmp_path / 'x.mp4'}", code=2).stderr
    assert "either images or video=FILE" in run("predict", head, code=2).stderr


def test_what_does_not_fit_is_refused_in_one_sentence(trained: tuple[Path, Path], tmp_path: Path) -> None:
    data, out = trained
    head = str(out / "heads" / "pixels" / "dense.safetensors")
    wrong = [
        (("pixels", f"data=[{tmp_path}]", f"out={tmp_path / 'o'}"), str(tmp_path)),
        (("pixels", f"data=[{tmp_path / 'absent'}]", f"out={tmp_path / 'o'}"), "absent"),
        (("pixels", f"out={tmp_path / 'o'}"), "data is empty"),
        (("pixels", f"data=[{data}]", f"out={tmp_path / 'o'}", "heads=[linaer]"), "linaer"),
        (("pixels", f"data=[{data}]", f"out={tmp_path / 'o'}", "split_by=leave-one-center-out"), "centers"),
        (("predict", head, str(data / "images"), "network=untrained:vit_tiny_patch14"), "other weights"),
        (("predict", str(data / "images" / "p00.png"), str(data / "images")), "no safetensors"),
    ]
    for words, named in wrong:
        done = run(*words, code=2)
        assert named in done.stderr and done.stderr.count("\n") == 1, done.stderr
