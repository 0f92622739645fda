"""What the verbs of `panendofm challenge` do."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from panendofm.challenge.check_data import check_data
from panendofm.challenge.convert import convert
from panendofm.challenge.merge import merge
from panendofm.challenge.rank.run import rank
from panendofm.challenge.record import record
from panendofm.challenge.score.run import ScoreOptions, score
from panendofm.challenge.timing import time_command
from panendofm.runtime.config import check_config
from panendofm.scoring.statistics.config import BootstrapConfig


def _path(word: str | None) -> Path | None:
    return Path(word) if word else None


def run_score(a: argparse.Namespace, config: None) -> None:
    bootstrap = BootstrapConfig(samples=a.samples, seed=a.seed)
    check_config(bootstrap)
    options = ScoreOptions(
        truth=Path(a.truth),
        out=Path(a.out),
        profile=a.profile,
        team=a.team,
        task=a.task,
        run=a.run,
        classes=[word.strip() for word in a.classes.split(",")] if a.classes else (),
        separator="\t" if a.separator in ("tab", "\\t") else a.separator,
        time_unit=a.time_unit,
        missing=a.missing,
        match=a.match,
        images=_path(a.images),
        without=_path(a.without),
        timing=_path(a.timing),
        figure=a.figure,
        confidence=a.confidence,
        fps=a.fps,
        unseen=a.unseen,
        mm_per_px=a.mm_per_px,
        training_pictures=a.training_pictures,
        organiser=a.organiser,
        bootstrap=bootstrap,
    )
    score(Path(a.submission), options)


def run_rank(a: argparse.Namespace, config: None) -> None:
    rank([Path(word) for word in a.results], a.task, a.reading, a.published, _path(a.out))


def run_time(a: argparse.Namespace, config: None) -> None:
    time_command(a.command, Path(a.images), Path(a.out), max(1, a.repeats), a.time_unit, a.timeout)


def run_check(a: argparse.Namespace, config: None) -> int:
    report = check_data(Path(a.folder), Path(a.out), text=not a.no_text)
    return 1 if report.errors else 0


def run_merge(a: argparse.Namespace, config: None) -> None:
    merge(Path(a.log), Path(a.out), a.date or datetime.now(UTC).date().isoformat())


def run_convert(a: argparse.Namespace, config: None) -> None:
    classes = [word.strip() for word in a.classes.split(",")] if a.classes else []
    convert(Path(a.source), a.kind, Path(a.out), a.target, _path(a.images), classes)


def run_record(a: argparse.Namespace, config: None) -> None:
    record(
        [Path(word) for word in a.results],
        Path(a.out),
        _path(a.plan),
        _path(a.shards),
        _path(a.data_check),
        _path(a.gold),
        [Path(word) for word in a.evidence],
    )
