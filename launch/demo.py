"""The whole pipeline on the synthetic corpus: each stage as its own process, by the command that a user would type."""

from __future__ import annotations

import time
from pathlib import Path

from launch.steps import Lanes, Step, run_parts
from panendofm.challenge import read_ranking
from panendofm.records.probe import ProbeFolder
from panendofm.records.release import ReleaseFolder
from panendofm.records.run import RunFolder, step_name
from panendofm.records.shards import ShardFolder
from panendofm.reports.numbers import difference, number
from panendofm.runtime.config import CONFIGS
from panendofm.runtime.console import duration, say

# Whose head reports the video: a network of 300 training steps mistakes too many scenes.
_REPORTER = "efficientnet-lite0"


def demo_steps(folder: Path) -> list[Step]:
    return [step for lanes in demo_parts(folder) for lane in lanes for step in lane]


def demo_parts(folder: Path) -> list[Lanes]:
    """What trains keeps all cores busy and what is timed must have them; the rest is done two at a time."""
    corpus, shards, training = training_steps(folder)
    judged, answered = _judged(folder), _answered(folder)
    heads, *timed = _challenge(folder)
    examination, findings = _video(folder)
    return [
        [[corpus]],
        [[shards], [judged["pixels"], judged["atlas"], answered[0], examination]],
        [[training]],
        [[judged["export"], judged["masks"]], [_report(folder)]],
        [[heads], [judged["probe"], *answered[1:]]],
        [[findings, *timed]],
    ]


def _labelled(folder: Path) -> Path:
    return folder / "corpus" / "kvasir-dataset-v2"


def training_steps(folder: Path) -> list[Step]:
    """The corpus, its shards, and a run on them."""
    corpus, shards, run = folder / "corpus", folder / "shards", folder / "run"
    labelled = _labelled(folder)
    two_processes = ("torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "pretrain")
    return [
        Step("draw a corpus", ("data_pipeline", "synthesize", str(corpus), "size=demo"), corpus),
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
                *(f"monitor.evaluation.data.path={labelled}", f"monitor.evaluation.cache={folder / 'cache'}"),
            ),
            run,
        ),
    ]


def _judged(folder: Path) -> dict[str, Step]:
    """The best checkpoint as a release: kNN, probes and masks."""
    run, release, atlas, probe = folder / "run", folder / "release", folder / "atlas.parquet", folder / "probe"
    labelled, untrained = _labelled(folder), str(RunFolder(run).checkpoint(0))
    return {
        "pixels": Step(
            "score raw pixels, for comparison",
            (
                *("eval_knn", "pixels", _config("eval/kvasir_leave_one_group_out.yaml"), f"data.path={labelled}"),
                *(f"cache={folder / 'cache'}", f"out={folder / 'pixels'}"),
            ),
            folder / "pixels",
        ),
        "export": Step(
            "export the best checkpoint",
            ("panendofm", "export", str(RunFolder(run).best), f"out={release}"),
            release,
            ReleaseFolder(release).checksums,
        ),
        "atlas": Step("read the labeled set", ("panendofm", "atlas", str(labelled), f"out={atlas}"), atlas),
        "probe": Step(
            "probe it beside baselines",
            (
                *("panendofm", "probe", str(release), untrained, "pixels"),
                *("task=all", f"data={atlas}", "protocol=converged", f"out={probe}"),
            ),
            ProbeFolder(probe).page,
        ),
        "masks": Step(
            "find polyps with it",
            (
                *("panendofm", "dense", str(release), untrained, f"data=[{folder / 'corpus' / 'Kvasir-SEG'}]"),
                *(f"out={folder / 'dense'}", "side_px=168", "heads=[linear]"),
            ),
            folder / "dense" / "index.html",
        ),
    }


def _challenge(folder: Path) -> list[Step]:
    """Heads on the class folders; the answers of two of them timed, scored and ranked."""
    release, labelled, place = folder / "release", _labelled(folder), folder / "challenge"
    probe = ProbeFolder(place / "probe")
    truth = probe.truth(labelled.name)
    steps = [
        Step(
            "train heads for a challenge",
            (
                *("panendofm", "probe", str(release), "pixels", _REPORTER, f"data={labelled}"),
                *("protocol=converged", f"out={probe.path}"),
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
                    *("panendofm", "probe", "time", str(head), str(truth)),
                    *(f"root={labelled}", "repeats=1", f"out={answers}"),
                ),
                answers,
            ),
            Step(
                f"score {name}",
                (
                    *("panendofm", "challenge", "score", str(answers), f"truth={truth}", "profile=medico2017"),
                    *(f"team={name}", f"images={labelled}", f"out={place / name}"),
                ),
                place / name / "index.html",
            ),
        ]
    ranked = (
        *("panendofm", "challenge", "rank", str(place / release.name), str(place / "pixels")),
        *("published=medico2017_efficiency", f"out={place / 'ranking'}"),
    )
    return [*steps, Step("rank the two", ranked, place / "ranking" / "index.html")]


def _video(folder: Path) -> list[Step]:
    """A report of a video by one of the challenge's heads."""
    place = folder / "challenge"
    video, head = place / "examination.mp4", ProbeFolder(place / "probe").head(_REPORTER, _labelled(folder).name)
    return [
        Step("draw an examination", ("data_pipeline", "examination", str(video)), video),
        Step(
            "report its findings",
            (
                *("panendofm", "probe", "report", str(head), str(video)),
                *(f"truth={video.with_suffix('.csv')}", f"out={place / 'report'}"),
            ),
            place / "report" / "report.html",
        ),
    ]


def _answered(folder: Path) -> list[Step]:
    """Questions about lesions: the release beside made-up contestants and readers, in one leaderboard."""
    release, place = folder / "release", folder / "questions"
    bench, answers, results = place / "bench", place / "answers", place / "results"
    truth = (f"data={folder / 'atlas.parquet'}", f"regions={folder / 'corpus' / 'regions.jsonl'}")
    return [
        Step(
            "ask about lesions",
            (
                "panendofm",
                "vqa",
                "build",
                _config("vqa/gi_synthetic.yaml"),
                *truth,
                "network=pixels",
                f"out={bench}",
            ),
            bench,
            bench / "items.parquet",
        ),
        Step(
            "let the release answer",
            (*("panendofm", "vqa", "encoder", str(bench), *truth), f"network={release}", f"out={answers / 'release'}"),
            answers / "release",
        ),
        Step(
            "make up contestants and readers",
            ("panendofm", "vqa", "synthesize", str(bench), f"out={place}"),
            place,
        ),
        Step(
            "score models and people",
            (
                *(
                    "panendofm",
                    "vqa",
                    "score",
                    str(bench),
                    *(str(answers / name) for name in ("release", "perfect", "shifted")),
                ),
                *(f"people={place / 'people'}", f"out={results}"),
            ),
            results / "index.html",
        ),
    ]


def _report(folder: Path) -> Step:
    run = folder / "run"
    return Step("write the report", ("launch", "report", str(run), "--pictures"), RunFolder(run).report)


def _config(name: str) -> str:
    return str(Path(CONFIGS.name) / name)


def run_demo(folder: Path) -> None:
    """Run all steps. Each stage is safe to repeat, so a demo that was interrupted goes on where it stopped."""
    began = time.monotonic()
    run_parts(demo_parts(folder), folder / "logs")
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
