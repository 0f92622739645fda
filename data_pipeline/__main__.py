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
    from data_pipeline.curate.config import CurateConfig


def _synthesize_options(parser: argparse.ArgumentParser) -> None:
    from panendofm.synthetic import SIZES

    parser.add_argument("--size", choices=list(SIZES), default="small", help="how much to make (default: small)")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other pictures (default: 0)")


def _synthesize(arguments: argparse.Namespace, _: Any) -> None:
    from panendofm.synthetic import synthesize

    synthesize(arguments.dir, arguments.size, arguments.seed)


def _examination_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--events", type=int, default=10, help="findings one after the other (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives another examination (default: 0)")


def _examination(arguments: argparse.Namespace, _: Any) -> None:
    from panendofm.synthetic import write_examination

    path = Path(arguments.video)
    if path.suffix != ".mp4" or arguments.events < 1:
        raise UserError(f"{path}: the video's name must end in .mp4, and --events must be 1 or more.")
    write_examination(path, arguments.events, arguments.seed)


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


def _curate(arguments: argparse.Namespace, config: CurateConfig) -> None:
    from data_pipeline.curate.run import curate

    curate(Path(arguments.shards), config)


def _lookup_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to", default="similar.csv", help="list to write; its page lies beside it (default: %(default)s)"
    )
    parser.add_argument("--most", type=int, default=100, help="frames to find (default: %(default)s)")
    parser.add_argument("--curation", help="folder of the curation (default: the shards' name with -curation)")


def _lookup(arguments: argparse.Namespace, _: Any) -> None:
    from data_pipeline.curate.lookup import look_up

    curation = Path(arguments.curation) if arguments.curation else None
    examples = [Path(picture) for picture in arguments.pictures]
    look_up(Path(arguments.shards), examples, Path(arguments.to), arguments.most, curation)


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
    Command("report", "Write OUT/report.html for a finished set.", _report, schema=PipelineConfig),
    Command(
        name="curate",
        summary="Cluster the frames of a finished set and write balanced weights for pretrain's data.weights.",
        run=_curate,
        arguments=("SHARDS",),
        schema="data_pipeline.curate.config:CurateConfig",
    ),
    Command(
        name="lookup",
        summary="Find the frames of a curated set that are most like some pictures.",
        run=_lookup,
        arguments=("SHARDS", "PICTURES…"),
        options=_lookup_options,
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
        options=_synthesize_options,
    ),
    Command(
        name="examination",
        summary="Write one synthetic video whose findings over time are known, with a CSV of them.",
        run=_examination,
        arguments=("VIDEO",),
        options=_examination_options,
    ),
)
STAGE = Stage("python -m data_pipeline", COMMANDS, extra="data")

if __name__ == "__main__":
    run_stage(STAGE)
