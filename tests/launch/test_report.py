"""The report of a real run, looked at by a real browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from launch.jobs.record import Job, JobEvent, record_event
from launch.progress import progress_of
from launch.report import write_report
from launch.report.collect import collect
from launch.report.images import draw_images
from launch.report.page import page_of
from panendofm.records.evaluation import AgainstStart
from panendofm.records.run import RunFolder
from panendofm.runtime.errors import UserError

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "pretrain"))
from engine_runs import run_ranks, words_of, write_shards

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")


def write_classes(folder: Path) -> Path:
    """Three classes of colored noise."""
    rng = np.random.default_rng(0)
    for number, name in enumerate(("polyps", "normal-cecum", "esophagitis")):
        (folder / name).mkdir(parents=True)
        for image in range(12):
            pixels = rng.integers(0, 120, (64, 64, 3), np.uint8)
            pixels[..., number] += 100
            Image.fromarray(pixels).save(folder / name / f"{image}.png")
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small training whose monitor evaluates it on the way."""
    folder = tmp_path_factory.mktemp("report")
    data = write_classes(folder / "labelled")
    shards = write_shards(folder / "shards")
    monitor = {
        "monitor__mode": "inline",
        "monitor__every_steps": 4,
        "monitor__early_stopping": "false",
        "monitor__evaluation__data__path": data,
        "monitor__evaluation__data__clean": "false",
        "monitor__evaluation__cache": folder / "cache",
        "monitor__evaluation__ks": "[5,10]",
        "monitor__evaluation__selection__metric": "top1_k10",
        "monitor__evaluation__bootstrap__samples": 50,
        "checkpoint__keep_last": 9,
    }
    run = folder / "my <run>"
    run_ranks(words_of(run, shards, **monitor), 1)
    job = Job("pretrain", str(run), ["pretrain", "x.yaml"], str(folder), "local", str(folder), submitted=1.0)
    job.save()
    record_event(job, JobEvent("started", job_id="17", restart=0, nodes="n[1-2]", ranks=4))
    record_event(job, JobEvent("ended", exit_code=75, state="RUNNING", verdict="requeue"))
    record_event(job, JobEvent("started", job_id="17", restart=1, nodes="n[2-3]", ranks=4))
    record_event(job, JobEvent("ended", exit_code=0, state="RUNNING", verdict="done"))
    draw_images(RunFolder(run))
    assert write_report(run) == run / "report.html"
    return run


def test_the_report_tells_what_the_run_did(run: Path) -> None:
    page = (run / "report.html").read_text()
    assert page.count("<svg") >= 9
    text = html.unescape(re.sub(r"<[^>]*>", " ", page))
    selection = json.loads((run / "eval" / "knn_selection.json").read_text())
    assert selection["checkpoint"] in text and selection["why"] in text
    for words in ("my <run>", "top1, k = 10", "12 of 12", "pretrain started, job 17, 4 processes", "requeue"):
        assert words in text, words
    for private in (str(run.parent), "n[1-2]"):
        assert private not in text, "a report names neither folders nor hosts"
    evaluation = json.loads((run / "eval" / f"knn_{selection['checkpoint']}.json").read_text())
    assert evaluation["leakage"]["note"][1:] in text
    assert "dino_head:" in text, "the config"
    assert 'src="data:image/png;base64,' in page and "Confusion matrix of" in text
    assert "Misses:" in page, "the neighbors of the chosen checkpoint"
    assert selection["stop_why"] in text and "Go on" not in text, "all steps are done: there is nothing to go on with"


def test_the_report_says_in_one_sentence_what_improved(run: Path) -> None:
    data = collect(RunFolder(run))
    assert data.selection is not None
    last, start = data.evaluations[-1], data.evaluations[0]
    against = AgainstStart(0.125, 0.031, 0.25, "better beyond noise")
    better = replace(data.selection, checkpoint=last.checkpoint, against_start={last.checkpoint: against})
    text = html.unescape(re.sub(r"<[^>]*>", " ", page_of(replace(data, selection=better))))
    first, now = start.k["10"].top1, last.k["10"].top1
    assert f"kNN top1 at k = 10 went from {first:.3f} at the start to {now:.3f}: better beyond noise" in text
    assert "(+0.125, interval +0.031 to +0.250)" in text
    unchanged = replace(data.selection, checkpoint=start.checkpoint, against_start={last.checkpoint: against})
    assert "went from" not in page_of(replace(data, selection=unchanged)), "the start is not compared with itself"


def test_every_kept_checkpoint_is_drawn_once_and_a_damaged_one_left_out(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints = sorted(path.name for path in (run / "checkpoints").iterdir())
    drawn = {name: run / "images" / f"patches_{name}.png" for name in checkpoints}
    assert len(checkpoints) > 2 and all(path.is_file() for path in drawn.values())
    copy = tmp_path / "copy"
    shutil.copytree(run, copy, symlinks=True)
    for name in checkpoints[1:]:
        (copy / "images" / drawn[name].name).unlink()
    damaged = next((copy / "checkpoints" / checkpoints[1]).glob("*.distcp"))
    damaged.write_bytes(damaged.read_bytes()[:100])
    kept = copy / "images" / drawn[checkpoints[0]].name
    kept.write_bytes(b"as it was")
    (copy / "eval" / "knn_selection.json").unlink()  # what eval_knn draws is another matter
    draw_images(RunFolder(copy))
    assert kept.read_bytes() == b"as it was"
    assert not (copy / "images" / drawn[checkpoints[1]].name).exists()
    again = copy / "images" / drawn[checkpoints[2]].name
    assert again.read_bytes() == drawn[checkpoints[2]].read_bytes()
    assert f"no image of {checkpoints[1]}: " in capsys.readouterr().out


def test_a_run_with_steps_to_do_may_go_on(run: Path) -> None:
    data = collect(RunFolder(run))
    assert data.progress is not None and data.selection is not None
    halfway = replace(data, progress=replace(data.progress, step=6), selection=replace(data.selection, stop=False))
    assert "Go on: " in page_of(halfway)


def test_the_page_needs_nothing_from_outside(run: Path) -> None:
    page = (run / "report.html").read_text()
    addresses = re.findall(r"""(?:src|href)=["']([^"']*)""", page)
    assert addresses and all(address.startswith(("data:", "#")) for address in addresses), addresses
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids)), "charts share ids: one would be drawn with another's parts"


def test_progress_of_the_run(run: Path) -> None:
    progress = progress_of(RunFolder(run))
    assert progress is not None
    assert (progress.step, progress.total_steps, progress.seconds_left) == (12, 12, 0)
    assert progress.metric == "top1_k10" and 0 <= (progress.best_knn or -1) <= 1


def test_a_folder_without_a_training_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no metrics\.jsonl"):
        write_report(tmp_path)


def browse(page: Path, profile: Path, *words: str) -> subprocess.CompletedProcess[str]:
    flags = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", f"--user-data-dir={profile}",
        "--enable-logging=stderr", *words,
    ]  # fmt: skip
    return subprocess.run(
        [str(CHROMIUM), *flags, page.as_uri()], capture_output=True, text=True, check=True, timeout=120
    )


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_browser_shows_it_without_complaint(run: Path, tmp_path: Path) -> None:
    """At laptop and phone width nothing sticks out to the side, every image is decoded, every curve has a size."""
    script = """
    const look = (width) => new Promise((done) => {
      const frame = document.createElement("iframe");
      frame.width = width; frame.height = 900; frame.srcdoc = document.getElementById("page").textContent;
      frame.onload = () => {
        const page = frame.contentDocument;
        const gallery = page.querySelector("iframe").contentDocument;
        const broken = [...page.images, ...gallery.images].filter((image) => !image.naturalWidth).length;
        const curves = [...page.querySelectorAll("figure svg")].map((svg) => svg.getBoundingClientRect());
        const flat = curves.filter((box) => box.width < 250 || box.height < 120).length;
        const scroll = page.documentElement.scrollWidth, neighbors = gallery.querySelectorAll(".row img").length;
        done({ width, scroll, broken, curves: curves.length, flat, neighbors });
      };
      document.body.append(frame);
    });
    Promise.all([look(390), look(1280)]).then((seen) => { document.title = JSON.stringify(seen); });
    """
    page = (run / "report.html").read_text()
    outer = tmp_path / "outer.html"
    inner = page.replace("</script", "<\\/script")
    outer.write_text(f'<script type="text/plain" id="page">{inner}</script><body><script>{script}</script>')
    seen = browse(outer, tmp_path / "profile", "--virtual-time-budget=10000", "--dump-dom")
    title = re.search(r"<title>(\[\{&quot;width.*?|\[\{\"width.*?)</title>", seen.stdout)
    assert title, seen.stdout[-500:]
    for look in json.loads(html.unescape(title.group(1))):
        assert look["scroll"] <= look["width"], look
        assert (look["broken"], look["flat"]) == (0, 0) and look["curves"] >= 9 and look["neighbors"] > 20, look
    plain = browse(
        run / "report.html", tmp_path / "profile2", f"--screenshot={tmp_path / 'page.png'}", "--window-size=1280,2400"
    )
    assert "CONSOLE" not in plain.stderr, plain.stderr
    assert np.asarray(Image.open(tmp_path / "page.png").convert("RGB")).std() > 10, "the page is empty"
