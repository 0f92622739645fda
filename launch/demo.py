"""The pipeline on the synthetic corpus: its main path as a demo, and all of it as a tour."""

from __future__ import annotations

import time
from pathlib import Path

from launch.demo_steps import demo_parts, tour_parts
from launch.pages import write_pages
from launch.steps import run_parts
from panendofm.challenge import read_ranking
from panendofm.records.probe import ProbeFolder
from panendofm.records.run import RunFolder, step_name
from panendofm.records.shards import ShardFolder
from panendofm.reports.numbers import difference, number
from panendofm.runtime.console import duration, say

# A demo that was interrupted goes on where it stopped: each stage is safe to repeat.


def run_demo(folder: Path) -> None:
    """From a corpus to a judged release."""
    began = time.monotonic()
    run_parts(demo_parts(folder), folder / "logs")
    _say_result("The demo", began, folder)


def run_tour(folder: Path) -> None:
    """The demo, then masks, a challenge, a video report and questions about lesions."""
    began = time.monotonic()
    run_parts(tour_parts(folder), folder / "logs")
    _say_result("The tour", began, folder)
    _say_dense(folder / "dense")
    _say_challenge(folder / "challenge")
    _say_questions(folder / "questions" / "results")


def _say_result(what: str, began: float, folder: Path) -> None:
    """On one screen: what was made, how much better it is, and where to look."""
    shards = ShardFolder(folder / "shards").read_manifest()
    run = RunFolder(folder / "run")
    say(f"{what} took {duration(time.monotonic() - began)}.")
    say(f"made: {shards.frames:,} frames in {len(shards.shards)} shards, {run.path}, {folder / 'release'}")
    _say_gain(run)
    _say_probe(ProbeFolder(folder / "probe"))
    say(f"Open {write_pages(folder)}; it leads to every page.")


def _say_gain(run: RunFolder) -> None:
    from eval_knn import SelectionConfig, against_start, read_history  # brings torch: only the end needs it

    history = read_history(run)
    best = run.best.resolve().name
    scores = {evaluation.checkpoint: evaluation.values["top1_k20"] for evaluation in history}
    before, after = scores[step_name(0)], scores[best]
    gain = against_start(history, SelectionConfig(metric="top1_k20")).get(best)
    shown = "" if gain is None else f", {difference(gain.difference, gain.low, gain.high)}"
    say(f"kNN top-1: {before:.3f} untrained, {after:.3f} at the chosen {best}{shown}")


def _say_probe(place: ProbeFolder) -> None:
    """The macro-AUC of each task that could be probed, of the release beside the untrained network and pixels."""
    from panendofm.linear_probe import read_probe_results

    results = read_probe_results(place.results)
    for task, networks in results.results.items():
        scores = [f"{name} {number(metrics.auc.macro)}" for name, metrics in networks.items()]
        say(f"macro-AUC, {results.tasks[task].title}: {', '.join(scores)}")


def _say_dense(place: Path) -> None:
    """IoU of polyp masks: the release against the run's first checkpoint."""
    from panendofm.linear_probe.dense import read_dense_results

    results = read_dense_results(ProbeFolder(place).results)
    (test,) = results.paired_tests
    ious = {
        found.network: scored.segmentation.iou
        for found in results.results
        for scored in found.tests.values()
        if scored.segmentation is not None
    }
    say(f"polyp masks, IoU: {number(ious[test.b].value)} at {test.b}, {number(ious[test.a].value)} of the release")
    say(f"a difference of {difference(test.difference, test.low, test.high)}")


def _say_challenge(place: Path) -> None:
    from panendofm.linear_probe import read_video_report

    for row in read_ranking(place / "ranking").rows:
        say(f"challenge: rank {row.rank}, {row.team}, MCC {row.metrics['mcc'].value:.3f} at {row.fps:.0f} images/s")
    found = read_video_report(place / "report" / "report.json").against_truth
    if found is not None:
        say(f"video report: {found.events_found} of {found.events} events found (temporal IoU ≥ 0.5)")


def _say_questions(place: Path) -> None:
    """Diagnoses of the release beside those of the made-up readers."""
    from panendofm.vqa import read_question_results

    human = read_question_results(place).human
    if human is None:
        return
    for row in [*(row for row in human.rows if row.kind == "encoder"), *human.groups]:
        diagnosis, box = (number(row.metrics[metric].value) for metric in ("q3", "q2"))
        say(f"questions about lesions: {row.name}, diagnosis {diagnosis}, box {box}")
