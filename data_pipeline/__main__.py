"""python -m data_pipeline VERB …"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_pipeline.config import PipelineConfig
from panendofm.runtime.command_line import Command, Stage, run_stage
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError

if TYPE_CHECKING:
    from data_pipeline.curate.config import CurateConfig, LookupConfig
    from data_pipeline.foreign.config import CheckConfig, ImportConfig
    from panendofm.synthetic import ExaminationConfig, SynthesizeConfig


def _synthesize(arguments: argparse.Namespace, config: SynthesizeConfig) -> None:
    from panendofm.synthetic import synthesize

    synthesize(arguments.dir, config.size, config.seed)


def _examination(arguments: argparse.Namespace, config: ExaminationConfig) -> None:
    from panendofm.synthetic import write_examination

    path = Path(arguments.video)
    if path.suffix != ".mp4":
        raise UserError(f"{path}: the video's name must end in .mp4.")
    write_examination(path, config.events, config.seed)


def _plan(_: argparse.Namespace, config: PipelineConfig) -> None:
    from data_pipeline.planning import plan, show
    from data_pipeline.screening.evaluation_sets import check_guarded_sets

    show(plan(config), config)
    for name, images in check_guarded_sets(config):
        say(f"guarded: {images:,} images of {name}")


def _shard(_: argparse.Namespace, config: PipelineConfig) -> None:
    from data_pipeline.run import shard

    shard(config)


def _verify(_: argparse.Namespace, config: PipelineConfig) -> int:
    from data_pipeline.output.verification import verify

    return 1 if verify(config).faults else 0


def _import(arguments: argparse.Namespace, config: ImportConfig) -> None:
    from data_pipeline.foreign.check import read_keys
    from panendofm.importing import import_shards

    left_out = [] if config.leave_out is None else read_keys(Path(config.leave_out))
    import_shards(Path(arguments.source), Path(config.out), left_out)


def _check(arguments: argparse.Namespace, config: CheckConfig) -> int:
    from data_pipeline.foreign.check import check

    return 1 if check(Path(arguments.shards), config) else 0


def _curate(arguments: argparse.Namespace, config: CurateConfig) -> None:
    from data_pipeline.curate.run import curate

    curate(Path(arguments.shards), config)


def _lookup(arguments: argparse.Namespace, config: LookupConfig) -> None:
    from data_pipeline.curate.lookup import look_up

    look_up(Path(arguments.shards), [Path(image) for image in arguments.images], config)


def _upload(arguments: argparse.Namespace, _: Any) -> None:
    from data_pipeline.output.uploading import upload_shards

    upload_shards(Path(arguments.folder), arguments.url)


def _report(_: argparse.Namespace, config: PipelineConfig) -> None:
    from data_pipeline.reporting.page import report

    report(config)


COMMANDS = (
    Command("plan", "List what would be read, and whether the guarded sets can be.", _plan, schema=PipelineConfig),
    Command(
        "shard", "Screen the corpora and write shards; continues an interrupted run.", _shard, schema=PipelineConfig
    ),
    Command("verify", "Check a finished set of shards from its bytes.", _verify, schema=PipelineConfig),
    Command(
        name="import",
        summary="Make a shard set of WebDataset tars, a folder of images or a saved Hugging Face dataset, as they are.",
        run=_import,
        arguments=("SOURCE",),
        schema="data_pipeline.foreign.config:ImportConfig",
    ),
    Command(
        name="check",
        summary="Compare a finished set with evaluation images; certify it when none of them is in it.",
        run=_check,
        arguments=("SHARDS",),
        schema="data_pipeline.foreign.config:CheckConfig",
    ),
    Command("report", "Write OUT/report.html for a finished set.", _report, schema=PipelineConfig),
    Command(
        name="curate",
        summary="Cluster the frames of a finished set and write balanced weights for pretrain's data.sampling_weights.",
        run=_curate,
        arguments=("SHARDS",),
        schema="data_pipeline.curate.config:CurateConfig",
    ),
    Command(
        name="lookup",
        summary="Find the frames of a curated set that are most like some images.",
        run=_lookup,
        arguments=("SHARDS", "IMAGES…"),
        schema="data_pipeline.curate.config:LookupConfig",
    ),
    Command(
        name="upload",
        summary="Bring a finished set to an S3-compatible store; goes on with an interrupted upload.",
        run=_upload,
        arguments=("FOLDER", "URL"),
    ),
    Command(
        name="synthesize",
        summary="Write a synthetic corpus in the layouts of the real ones, with a truth file.",
        run=_synthesize,
        arguments=("DIR",),
        schema="panendofm.synthetic:SynthesizeConfig",
    ),
    Command(
        name="examination",
        summary="Write one synthetic video whose findings over time are known, with a CSV of them.",
        run=_examination,
        arguments=("VIDEO",),
        schema="panendofm.synthetic:ExaminationConfig",
    ),
)
STAGE = Stage("python -m data_pipeline", COMMANDS, extra="data")

if __name__ == "__main__":
    run_stage(STAGE)
