"""The steps of demo and tour: each stage as its own process, by the command that a user would type."""

from __future__ import annotations

from pathlib import Path

from launch.steps import Lanes, Step
from panendofm.records.probe import ProbeFolder
from panendofm.records.release import ReleaseFolder
from panendofm.records.run import RunFolder
from panendofm.runtime.config import CONFIGS

# Title, command, what it leaves to look at, and what is there when that is whole, of a stage that never writes over its
# output. {names} stand for places, see `_places`. A network of 300 training steps mistakes too many scenes of a video:
# another one reports that.
_STEPS = {
    "corpus": ("draw a corpus", "data_pipeline synthesize {corpus} size=demo", "{corpus}"),
    "shards": (
        "clean, guard and shard it",
        "data_pipeline shard {configs}/corpora/synthetic.yaml data_root={corpus} leakage.guard=[{labeled}] "
        "out={shards}",
        "{shards}",
    ),
    "training": (
        "pretrain on two processes",
        "torch.distributed.run --standalone --nproc-per-node=2 -m pretrain {configs}/pretrain/demo.yaml "
        "data.shards={shards} run.dir={run} monitor.evaluation.data.path={labeled} monitor.evaluation.cache={cache}",
        "{run}",
    ),
    "knn": (
        "score raw pixels, for comparison",
        "eval_knn pixels {configs}/eval/kvasir_leave_one_group_out.yaml data.path={labeled} cache={cache} out={pixels}",
        "{pixels}",
    ),
    "export": ("export the best checkpoint", "panendofm export {selected} out={release}", "{release}", "{checksums}"),
    "atlas": ("read the labeled set", "panendofm atlas {labeled} out={atlas}", "{atlas}"),
    "probe": (
        "probe it beside baselines",
        "panendofm probe {release} {start} pixels task=all data={atlas} protocol=converged seeds=1 out={probe}",
        "{probe_page}",
    ),
    "masks": (
        "find polyps with it",
        "panendofm dense {release} {start} data=[{corpus}/Kvasir-SEG] out={dense} side_px=168 heads=[linear]",
        "{dense}/index.html",
    ),
    "heads": (
        "train heads for a challenge",
        "panendofm probe {release} pixels efficientnet-lite0 data={labeled} protocol=converged seeds=1 out={heads}",
        "{heads_page}",
    ),
    "time_release": (
        "time the answers of release",
        "panendofm probe time {release_head} {truth} root={labeled} repeats=1 out={challenge}/release.csv",
        "{challenge}/release.csv",
    ),
    "score_release": (
        "score release",
        "panendofm challenge score {challenge}/release.csv truth={truth} profile=medico2017 team=release "
        "images={labeled} out={challenge}/release",
        "{challenge}/release/index.html",
    ),
    "time_pixels": (
        "time the answers of pixels",
        "panendofm probe time {pixels_head} {truth} root={labeled} repeats=1 out={challenge}/pixels.csv",
        "{challenge}/pixels.csv",
    ),
    "score_pixels": (
        "score pixels",
        "panendofm challenge score {challenge}/pixels.csv truth={truth} profile=medico2017 team=pixels "
        "images={labeled} out={challenge}/pixels",
        "{challenge}/pixels/index.html",
    ),
    "rank": (
        "rank the two",
        "panendofm challenge rank {challenge}/release {challenge}/pixels published=medico2017_efficiency "
        "out={challenge}/ranking",
        "{challenge}/ranking/index.html",
    ),
    "examination": ("draw an examination", "data_pipeline examination {video}", "{video}"),
    "findings": (
        "report its findings",
        "panendofm probe report {reporter_head} {video} truth={video_truth} out={challenge}/report",
        "{challenge}/report/report.html",
    ),
    "bench": (
        "ask about lesions",
        "panendofm vqa build {configs}/vqa/gi_synthetic.yaml data={atlas} regions={corpus}/regions.jsonl "
        "network=pixels out={questions}/bench",
        "{questions}/bench",
        "{questions}/bench/items.parquet",
    ),
    "encoder": (
        "let the release answer",
        "panendofm vqa encoder {questions}/bench data={atlas} regions={corpus}/regions.jsonl network={release} "
        "out={questions}/answers/release",
        "{questions}/answers/release",
    ),
    "readers": (
        "make up contestants and readers",
        "panendofm vqa synthesize {questions}/bench out={questions}",
        "{questions}",
    ),
    "answers": (
        "score models and people",
        "panendofm vqa score {questions}/bench {questions}/answers/release {questions}/answers/perfect "
        "{questions}/answers/shifted people={questions}/people out={questions}/results",
        "{questions}/results/index.html",
    ),
    "report": ("write the report", "launch report {run} --images", "{report}"),
}
Names = tuple[tuple[tuple[str, ...], ...], ...]
# What trains keeps all cores busy and what is timed must have them; the rest is done two at a time.
_DEMO: Names = (
    (("corpus",),),
    (("shards",), ("knn", "atlas")),
    (("training",),),
    (("export", "probe"), ("report",)),
)
_TOUR: Names = (
    (("corpus",),),
    (("shards",), ("knn", "atlas", "bench", "examination")),
    (("training",),),
    (("export", "masks"), ("report",)),
    (("heads",), ("probe", "encoder", "readers", "answers")),
    (("findings", "time_release", "score_release", "time_pixels", "score_pixels", "rank"),),
)


def demo_parts(folder: Path) -> list[Lanes]:
    """The main path: corpus, shards, training, choice, release, probe."""
    return _parts(folder, _DEMO)


def tour_parts(folder: Path) -> list[Lanes]:
    """The main path, and all else that a release can be judged by."""
    return _parts(folder, _TOUR)


def _parts(folder: Path, parts: Names) -> list[Lanes]:
    return [[[_step(folder, name) for name in lane] for lane in lanes] for lanes in parts]


def training_steps(folder: Path) -> list[Step]:
    """The corpus, its shards, and a run on them."""
    return [_step(folder, name) for name in ("corpus", "shards", "training")]


def _step(folder: Path, name: str) -> Step:
    title, command, *results = _STEPS[name]
    places = _places(folder)
    words = tuple(word.format(**places) for word in command.split())
    return Step(title, words, *(Path(result.format(**places)) for result in results))


def _places(folder: Path) -> dict[str, Path]:
    run = RunFolder(folder / "run")
    release = ReleaseFolder(folder / "release")
    labeled = folder / "corpus" / "kvasir-dataset-v2"
    heads = ProbeFolder(folder / "challenge" / "probe")
    names = ("corpus", "shards", "cache", "pixels", "probe", "dense", "challenge", "questions")
    return {
        **{name: folder / name for name in names},
        "configs": Path(CONFIGS.name),
        "labeled": labeled,
        "atlas": folder / "atlas.parquet",
        "video": folder / "challenge" / "examination.mp4",
        "video_truth": folder / "challenge" / "examination.csv",
        "run": run.path,
        "selected": run.best,
        "start": run.checkpoint(0),
        "report": run.report,
        "release": release.path,
        "checksums": release.checksums,
        "probe_page": ProbeFolder(folder / "probe").page,
        "heads": heads.path,
        "heads_page": heads.page,
        "truth": heads.truth(labeled.name),
        "release_head": heads.head(release.path.name, labeled.name),
        "pixels_head": heads.head("pixels", labeled.name),
        "reporter_head": heads.head("efficientnet-lite0", labeled.name),
    }
