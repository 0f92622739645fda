"""The whole pipeline on the synthetic corpus: each stage as its own process, by the command that a user would type."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from records.probe import ProbeFolder
from records.release import ReleaseFolder
from records.run import RunFolder, step_name
from records.shards import ShardFolder
from runtime.config import CONFIGS
from runtime.console import duration, say
from runtime.errors import UserError
from runtime.files import make_directory, read_json

# What a process frees stays its own: to give large activations back and ask for the same pages again takes most of the
# time of a convolution on some machines.
KEEP_FREED_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
# Whose head reports the video: a network of 300 training steps mistakes too many scenes.
_REPORTER = "efficientnet-lite0"


@dataclass(frozen=True)
class Step:
    """One command of the demo and what it leaves behind to look at."""

    title: str
    words: tuple[str, ...]
    result: Path
    finished: Path | None = None  # of a stage that never writes over its output: there when that is whole

    @property
    def command(self) -> str:
        return "python -m " + shlex.join(self.words)


def demo_steps(folder: Path) -> list[Step]:
    corpus, shards, run, release = folder / "corpus", folder / "shards", folder / "run", folder / "release"
    labelled, atlas, probe = corpus / "kvasir-dataset-v2", folder / "atlas.parquet", folder / "probe"
    cache = folder / "cache"
    two_processes = ("torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "pretrain")
    return [
        Step("draw a corpus", ("data_pipeline", "synthesize", str(corpus), "--size", "demo"), corpus),
        Step(
            "clean, guard and shard it",
            (
                *("data_pipeline", "shard", _config("corpora/synthetic.yaml"), f"data_root={corpus}"),
                *(f"leakage.guard=[{labelled}]", f"out={shards}"),
            ),
            shards,
        ),
        Step(
            "pretrain on two processes",
            (
                *(*two_processes, _config("pretrain/demo.yaml"), f"data.shards={shards}", f"run.dir={run}"),
                *(f"monitor.evaluation.data.path={labelled}", f"monitor.evaluation.cache={cache}"),
            ),
            run,
        ),
        Step(
            "score raw pixels, for comparison",
            (
                *("eval_knn", "pixels", _config("eval/kvasir_leave_one_group_out.yaml"), f"data.path={labelled}"),
                *(f"cache={cache}", f"out={folder / 'pixels'}"),
            ),
            folder / "pixels",
        ),
        Step(
            "export the best checkpoint",
            ("backbone", "export", str(RunFolder(run).best), "--to", str(release)),
            release,
            ReleaseFolder(release).checksums,
        ),
        Step("read the labelled set", ("linear_probe", "atlas", str(labelled), "--out", str(atlas)), atlas),
        Step(
            "probe it beside baselines",
            (
                *("linear_probe", str(release), str(RunFolder(run).checkpoint(0)), "pixels"),
                *("--task", "all", "--data", str(atlas), "--protocol", "converged", "--out", str(probe)),
            ),
            ProbeFolder(probe).page,
        ),
        Step(
            "find polyps with it",
            (
                *("linear_probe", "dense", str(release), str(RunFolder(run).checkpoint(0))),
                *("--data", str(corpus / "Kvasir-SEG"), "--out", str(folder / "dense"), "side_px=168"),
                "heads=[linear]",
            ),
            folder / "dense" / "index.html",
        ),
        *_challenge_steps(folder, release, labelled, ProbeFolder(probe).features),
        *_question_steps(folder, release, atlas, corpus / "regions.jsonl"),
        Step("write the report", ("launch", "report", str(run), "--pictures"), RunFolder(run).report),
    ]


def _challenge_steps(folder: Path, release: Path, labelled: Path, features: Path) -> list[Step]:
    """A head on the class folders: timed, scored and ranked beside raw pixels; and a report of a video."""
    place = folder / "challenge"
    probe, video = ProbeFolder(place / "probe"), place / "examination.mp4"
    truth = probe.truth(labelled.name)
    steps = [
        Step(
            "train heads for a challenge",
            (
                *("linear_probe", str(release), "pixels", _REPORTER, "--data", str(labelled)),
                *("--protocol", "converged", "--out", str(probe.path), f"cache={features}"),
            ),
            probe.page,
        )
    ]
    for name in (release.name, "pixels"):
        head, answers = probe.head(name, labelled.name), place / f"{name}.csv"
        steps += [
            Step(
                f"time the answers of {name}",
                (
                    *("linear_probe", "time", str(head), str(truth), "--root", str(labelled), "--repeats", "1"),
                    *("--out", str(answers)),
                ),
                answers,
            ),
            Step(
                f"score {name}",
                (
                    *("challenge", "score", str(answers), "--truth", str(truth), "--profile", "medico2017"),
                    *("--team", name, "--images", str(labelled), "--out", str(place / name)),
                ),
                place / name / "index.html",
            ),
        ]
    return [
        *steps,
        Step(
            "rank the two",
            (
                *("challenge", "rank", str(place / release.name), str(place / "pixels")),
                *("--published", "medico2017_efficiency", "--out", str(place / "ranking")),
            ),
            place / "ranking" / "index.html",
        ),
        Step("draw an examination", ("data_pipeline", "examination", str(video)), video),
        Step(
            "report its findings",
            (
                *("linear_probe", "report", str(probe.head(_REPORTER, labelled.name)), str(video)),
                *("--truth", str(video.with_suffix(".csv")), "--out", str(place / "report")),
            ),
            place / "report" / "report.html",
        ),
    ]


def _question_steps(folder: Path, release: Path, atlas: Path, regions: Path) -> list[Step]:
    """Questions about lesions: the release beside made-up contestants and readers, in one leaderboard."""
    place = folder / "questions"
    bench, answers, results = place / "bench", place / "answers", place / "results"
    truth = (f"data={atlas}", f"regions={regions}")
    return [
        Step(
            "ask about lesions",
            ("vqa", "build", _config("vqa/gi_synthetic.yaml"), *truth, "weights=pixels", f"out={bench}"),
            bench,
            bench / "items.parquet",
        ),
        Step(
            "let the release answer",
            (*("vqa", "encoder", str(bench), *truth), f"weights={release}", f"out={answers / 'release'}"),
            answers / "release",
        ),
        Step("make up contestants and readers", ("vqa", "synthesize", str(bench), "--out", str(place)), place),
        Step(
            "score models and people",
            (
                *("vqa", "score", str(bench), *(str(answers / name) for name in ("release", "perfect", "shifted"))),
                *("--people", str(place / "people"), "--out", str(results)),
            ),
            results / "index.html",
        ),
    ]


def _config(name: str) -> str:
    return str(Path(CONFIGS.name) / name)


def run_demo(folder: Path) -> None:
    """Run the steps in order. Each stage is safe to repeat, so a demo that was interrupted goes on where it stopped."""
    logs = make_directory(folder / "logs")
    steps = demo_steps(folder)
    began = time.monotonic()
    for number, step in enumerate(steps, 1):
        say(f"[{number}/{len(steps)}] {step.title}: {step.command}")
        if step.finished is not None and step.finished.is_file():
            say(f"      is there: {step.result}")
            continue
        step_began = time.monotonic()
        run_step(step, logs / f"{number}.log")
        say(f"      {duration(time.monotonic() - step_began)}: {step.result}")
    say(f"The demo took {duration(time.monotonic() - began)}.")
    _say_scores(folder)
    run, shards = RunFolder(folder / "run"), ShardFolder(folder / "shards")
    challenge = folder / "challenge"
    pages = (
        *(run.report, shards.report, ProbeFolder(folder / "probe").page, folder / "dense" / "index.html"),
        *(challenge / "ranking" / "index.html", challenge / "report" / "report.html"),
        folder / "questions" / "results" / "index.html",
    )
    say(f"Open {', '.join(str(page) for page in pages[:-1])} and {pages[-1]}.")


def run_step(step: Step, log: Path) -> None:
    with log.open("w", encoding="utf-8") as output:
        code = subprocess.run(
            [sys.executable, "-m", *step.words],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | KEEP_FREED_MEMORY,
            check=False,
        ).returncode
    if code != 0:
        last_line = next((line for line in reversed(log.read_text(encoding="utf-8").splitlines()) if line.strip()), "")
        raise UserError(f"'{step.command}' ended with exit code {code} ({last_line.strip()}); all it said is in {log}.")


def _say_scores(folder: Path) -> None:
    """The two figures that the demo is for: kNN before and after training, and the probe's table."""
    from eval_knn import SelectionConfig, against_start, read_history  # brings torch: only the demo's end needs it

    run = RunFolder(folder / "run")
    history, best = read_history(run), run.best.resolve().name
    scores = {evaluation.checkpoint: evaluation.values["top1_k20"] for evaluation in history}
    say(f"kNN top-1 at k = 20: {scores[step_name(0)]:.3f} untrained, {scores[best]:.3f} at the selected {best}")
    gain = against_start(history, SelectionConfig(metric="top1_k20")).get(best)
    if gain is not None:
        say(f"a gain of {gain.difference:.3f} (95% interval {gain.low:.3f} to {gain.high:.3f})")
    say(ProbeFolder(folder / "probe").table.read_text(encoding="utf-8").rstrip())
    _say_dense(folder / "dense")
    _say_challenge(folder / "challenge")
    _say_questions(folder / "questions" / "results")


def _say_dense(place: Path) -> None:
    """IoU of polyp masks: the release against the run's first checkpoint."""
    (test,) = read_json(place / "results.json")["paired_tests"]
    ious = {
        entry["network"]: found["segmentation"]["iou"]["value"]
        for entry in read_json(place / "results.json")["results"]
        for found in entry["tests"].values()
    }
    say(f"polyp masks, IoU: {ious[test['b']]:.3f} at {test['b']}, {ious[test['a']]:.3f} of the release")
    say(f"a gain of {test['difference']:.3f} (95% interval {test['low']:.3f} to {test['high']:.3f})")


def _say_challenge(place: Path) -> None:
    for row in read_json(place / "ranking" / "ranking.json")["rows"]:
        say(f"challenge: rank {row['rank']}, {row['team']}, MCC {row['mcc']:.3f} at {row['fps']:.0f} pictures/s")
    found = read_json(place / "report" / "report.json")["against_truth"]
    say(f"video report: {found['events_found_at_iou_0.5']} of {found['events']} events found (temporal IoU ≥ 0.5)")


def _say_questions(place: Path) -> None:
    """Diagnoses of the release beside those of the made-up readers."""
    human = read_json(place / "results.json")["human"]
    for row in [*(row for row in human["rows"] if row["kind"] == "encoder"), *human["groups"]]:
        say(f"questions about lesions: {row['name']}, diagnosis {row['q3']['mean']:.3f}, box {row['q2']['mean']:.3f}")
