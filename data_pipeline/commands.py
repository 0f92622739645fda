"""What the verbs of `python -m data_pipeline` do that are more than one call."""

from __future__ import annotations

from pathlib import Path

from data_pipeline.config import PipelineConfig
from data_pipeline.foreign.config import CheckConfig, ImportConfig
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.synthetic import ExaminationConfig, SynthesizeConfig


def run_plan(config: PipelineConfig) -> None:
    from data_pipeline.planning import plan, show
    from data_pipeline.screening.evaluation_sets import check_guarded_sets

    show(plan(config), config)
    for name, images in check_guarded_sets(config):
        say(f"guarded: {images:,} images of {name}")


def run_verify(config: PipelineConfig) -> int:
    from data_pipeline.output.verification import verify

    return 1 if verify(config).faults else 0


def run_import(source: Path, config: ImportConfig) -> None:
    from data_pipeline.foreign.check import read_keys
    from panendofm.importing import import_shards

    left_out = [] if config.leave_out is None else read_keys(Path(config.leave_out))
    import_shards(source, Path(config.out), left_out)


def run_check(shards: Path, config: CheckConfig) -> int:
    from data_pipeline.foreign.check import check

    return 1 if check(shards, config) else 0


def run_upload(folder: Path, url: str) -> None:
    from data_pipeline.output.uploading import upload_shards

    upload_shards(folder, url)


def run_synthesize(folder: Path, config: SynthesizeConfig) -> None:
    from panendofm.synthetic import synthesize

    synthesize(folder, config.size, config.seed)


def run_examination(path: Path, config: ExaminationConfig) -> None:
    from panendofm.synthetic import write_examination

    if path.suffix != ".mp4":
        raise UserError(f"{path}: the video's name must end in .mp4.")
    write_examination(path, config.events, config.seed)
