"""`shard`: from corpora to a finished, verified-by-checksum set of shards.

Phase one screens the sources; every unit leaves a part folder below `OUT/work`, named by a fingerprint of all that
shapes it. Phase two settles copies across the run and writes the shards. Whatever is there already is not done again,
so a run that was interrupted continues, and ends with the same bytes as one that was not.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import ray

from data_pipeline.cluster import ray_session, run_tasks
from data_pipeline.config import WORK, PipelineConfig
from data_pipeline.identity import hashed, load_key, load_or_create_key
from data_pipeline.output.manifest import with_text_left, write_manifest
from data_pipeline.output.merge_parts import Collected, collect
from data_pipeline.output.shuffle import plan_shuffle, write_run
from data_pipeline.output.tars import shards_for, write_shard
from data_pipeline.planning import Plan, fingerprint, plan, published_config, settings_of, show
from data_pipeline.reporting.page import report
from data_pipeline.screening.evaluation_sets import guarded_files, read_guarded_sets
from data_pipeline.screening.screen_sources import process_unit
from panendofm.imaging.leakage import Guard
from panendofm.records.shards import GuardedSet, PrivateFolder, ShardFolder, index_name, shard_name
from panendofm.runtime.config import save_config
from panendofm.runtime.console import duration, progress, say, track, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, make_private_directory, read_json, remove_leftovers, write_json
from panendofm.runtime.locks import directory_lock

_SHUFFLE = "shuffle"


@dataclass(frozen=True)
class ShardResult:
    """What a run made."""

    out: Path
    frames: int
    shards: int
    did_nothing: bool


def shard(config: PipelineConfig) -> ShardResult:
    """Make the shards; see the module's text."""
    began = time.monotonic()
    made = plan(config)
    show(made, config)
    out = make_directory(config.out_dir)
    with directory_lock(make_private_directory(config.private_dir)):
        key = load_or_create_key(config.private_dir)
        prints = [fingerprint(unit.sources) for unit in made.units]
        guarded = [list(guarded_files(config).values())]
        run_id = fingerprint(settings_of(config), prints, guarded, hashlib.sha256(key).hexdigest())
        finished = _finished(config, run_id)
        if finished is not None:
            return finished
        files = ShardFolder(out)
        files.checksums.unlink(missing_ok=True)  # they say that the set is whole
        remove_leftovers(out)
        remove_leftovers(config.private_dir)
        save_config(published_config(config), files.config)
        save_config(config, PrivateFolder(config.private_dir).config)
        with ray_session(config.ray) as at_once:
            guard, sets = read_guarded_sets(config, at_once)
            parts = _part_folders(made, prints, config, sets, key)
            _screen_sources(made, parts, config, guard, key, at_once)
            collected = collect(parts, config.duplicates)
            _say_problems(collected)
            if len(collected.rows) == 0:
                raise UserError(f"no frame of {config.data_root} passed the screens; {_most_frequent(collected)}.")
            names = _write_shards(collected, parts, config, at_once)
        write_manifest(out, config, made, collected, sets, names, _rows_files(out, len(names)))
        write_json(PrivateFolder(config.private_dir).finished, {"run": run_id, "frames": len(collected.rows)})
        make_private_directory(config.private_dir)
        shutil.rmtree(out / WORK)
        report(config)
    count, took = len(collected.rows), duration(time.monotonic() - began)
    say(f"wrote {count} frames in {len(names)} shards to {out} in {took}.")
    return ShardResult(out, count, len(names), did_nothing=False)


def _finished(config: PipelineConfig, run_id: str) -> ShardResult | None:
    """The result of an earlier, finished run of the same plan. A finished set of another plan is never overwritten."""
    out, private = config.out_dir, PrivateFolder(config.private_dir)
    files = ShardFolder(out)
    if not files.checksums.is_file():
        return None
    record = read_json(private.finished) if private.finished.is_file() else None
    if record is None and (out / WORK).is_dir():
        return None  # killed after the checksums, before the record: the last steps are done again
    if record is None or record["run"] != run_id:
        raise UserError(
            f"{out} holds a finished set made from other files or settings, or with another key; choose another out, "
            f"or remove it and {private.finished}."
        )
    if (out / WORK).is_dir():
        shutil.rmtree(out / WORK)
    if not files.report.is_file():
        report(config)
    shards = len(files.read_manifest().shards)
    say(f"{out} is finished: {record['frames']} frames in {shards} shards; nothing to do.")
    return ShardResult(out, int(record["frames"]), shards, did_nothing=True)


def _part_folders(
    made: Plan, prints: list[str], config: PipelineConfig, sets: list[GuardedSet], key: bytes
) -> list[Path]:
    """The folders that phase one fills, in plan order, each named by a fingerprint of all that shapes its content."""
    settings = {k: v for k, v in settings_of(config).items() if k != "corpora"}
    shaping = fingerprint(settings, [s.fingerprint for s in sets], hashlib.sha256(key).hexdigest())
    return [
        config.out_dir / WORK / f"part-{unit.number:06d}-{fingerprint(shaping, of_sources)}"
        for unit, of_sources in zip(made.units, prints, strict=True)
    ]


def _screen_sources(
    made: Plan, parts: list[Path], config: PipelineConfig, guard: Guard, key: bytes, at_once: int
) -> None:
    """Phase one: fill the part folders that are not there yet."""
    remove_leftovers(make_directory(config.out_dir / WORK))
    todo = [(unit, part) for unit, part in zip(made.units, parts, strict=True) if not part.is_dir()]
    if len(todo) < len(parts):
        say(f"continuing: {len(parts) - len(todo)} of {len(parts)} units are done.")
    shared_guard, shared_config = ray.put(guard), ray.put(config)
    tasks = ((unit, shared_config, shared_guard, key, part) for unit, part in todo)
    frames, began = 0, time.monotonic()
    with progress("screening", len(todo), "units") as bar:
        for _, seen in run_tasks(process_unit, tasks, at_once, config.ray.retries):
            frames += seen
            bar.rate = f"{frames / (time.monotonic() - began):.1f} frames/s"
            bar.advance()


def _write_shards(collected: Collected, parts: list[Path], config: PipelineConfig, at_once: int) -> list[str]:
    """Phase two: all frames through sorted runs into shards. Returns the names of the shards."""
    out, frames = config.out_dir, collected.rows
    shards = shards_for(len(frames), int(frames.sizes.sum()), config.shards.size_mb * 1e6)
    names = [shard_name(number) for number in range(shards)]
    shuffle = plan_shuffle(frames, parts, shards)
    keys = hashlib.sha256(np.sort(frames.keys).tobytes()).hexdigest()
    _forget_other_shards(out, fingerprint([part.name for part in parts], keys, shards, len(shuffle.runs)), names)
    folder = make_directory(out / WORK / _SHUFFLE)
    remove_leftovers(folder)
    runs = [folder / f"run-{number:06d}.arrow" for number in range(len(shuffle.runs))]
    retries = config.ray.retries
    sorting = run_tasks(write_run, zip(runs, shuffle.runs, strict=True), at_once, retries)
    for _ in track(sorting, "sorting", len(runs), "runs"):
        pass
    tasks = (
        (out / name, number, shuffle.stretches_of(number, runs), rows)
        for number, (name, rows) in enumerate(zip(names, _rows_files(out, shards), strict=True))
    )
    for _ in track(run_tasks(write_shard, tasks, at_once, retries), "writing", len(names), "shards"):
        pass
    return names


def _rows_files(out: Path, shards: int) -> list[Path]:
    """Where each shard's rows of the manifest wait until all shards are there."""
    return [out / WORK / _SHUFFLE / f"rows-{number:06d}.arrow" for number in range(shards)]


def _forget_other_shards(out: Path, assignment: str, names: list[str]) -> None:
    """Remove what an earlier, unfinished run with another content has shuffled; keep what this run would write."""
    record = out / WORK / "assignment.json"
    if record.is_file() and read_json(record) == assignment:
        keep = {*names, *(index_name(name) for name in names)}
    else:
        keep = set()
        shutil.rmtree(out / WORK / _SHUFFLE, ignore_errors=True)
    for path in ShardFolder(out).shard_files():
        if path.name not in keep:
            path.unlink()
    write_json(record, assignment)


def _say_problems(collected: Collected) -> None:
    broken = [(source, file, why) for source in collected.sources for file, why in source.problems.items()]
    for source, file, why in broken[:20]:
        warn(f"{source.corpus}: {file} {why}.")
    if len(broken) > 20:
        warn(f"and {len(broken) - 20} more broken files; all are in the private list of sources.")
    left = with_text_left(collected.sources)
    for source in left[:20]:
        audit = source.audit
        name = f"{source.corpus}: {source.path}"
        warn(f"{name} text is still read on {audit['after_text']} of {audit['after_read']} audited frames.")
    if len(left) > 20:
        warn(f"and {len(left) - 20} more sources with text; screen.text.reader=filter drops such frames.")


def _most_frequent(collected: Collected) -> str:
    counts = collected.dropped
    if not counts:
        return "not one file could be read"
    reason = max(counts, key=lambda name: counts[name])
    return f"the most frequent reason is {reason} ({counts[reason]} frames)"


def trace(config: PipelineConfig, corpus: str, path: str, frame: int) -> str:
    """The key that a frame has in the shards: with the private key, every frame can be found from its source."""
    return hashed(load_key(config.private_dir), "frame", corpus, path, frame)
