"""`check`: compare the images of a finished shard set with evaluation sets, and certify it when none is a copy."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ray

from data_pipeline.cluster import ray_session, run_tasks
from data_pipeline.config import PipelineConfig
from data_pipeline.foreign.config import CheckConfig
from data_pipeline.screening.evaluation_sets import check_guarded_sets, read_guarded_sets, thumbnail_of_frame
from panendofm.imaging.images import decode_image
from panendofm.imaging.leakage import Guard, method_of
from panendofm.records.shards import Certificate, GuardedSet, Manifest, ShardFolder, read_index
from panendofm.runtime.console import say, track
from panendofm.runtime.csv_files import csv_text, read_csv, unescaped
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_checksums, sha256_of, write_text
from panendofm.runtime.names import printable

_FEW_SAMPLES = 200  # of a shard, in one task


@dataclass(frozen=True)
class Leak:
    """A sample that shows an image of an evaluation set."""

    key: str
    shard: str
    image: str
    sha256: str
    correlation: float


def check(shards: Path, config: CheckConfig) -> list[Leak]:
    """The copies in `shards`, also written to `config.out`. Without any, a set that has no certificate gets one."""
    files = ShardFolder(shards)
    if not files.manifest.is_file():
        raise UserError(f"{shards} is no shard set (manifest.json is missing); make one with 'data_pipeline import'.")
    if not config.leakage.guard:
        raise UserError("leakage.guard is empty; name the folders of the evaluation images.")
    manifest = files.read_manifest()
    # Images are cropped and compared as `data_pipeline shard` does it.
    pipeline = PipelineConfig(out=str(shards), leakage=config.leakage, ray=config.ray)
    check_guarded_sets(pipeline)
    with ray_session(config.ray) as at_once:
        guard, sets = read_guarded_sets(pipeline, at_once)
        shared = ray.put(guard), ray.put(pipeline)
        tasks = [(shards / name, start, *shared) for name in manifest.shards for start in _starts(shards / name)]
        results = run_tasks(find_leaks, tasks, at_once, config.ray.retries)
        leaks = [leak for _, some in track(results, "comparing", len(tasks), "tasks") for leak in some]
    leaks.sort(key=lambda leak: (leak.shard, leak.key))
    _write_leaks(Path(config.out), leaks)
    if leaks:
        say(
            f"{len(leaks)} of {manifest.frames} images show an image of an evaluation set; they are listed in "
            f"{config.out}. Import the images again with leave_out={config.out}, and check that set."
        )
    elif manifest.leakage is not None:
        say(f"{manifest.frames} images compared: no copy. The set keeps the certificate that it was made with.")
    else:
        _certify(files, manifest, sets, config)
        say(f"{manifest.frames} images compared: no copy. The set now has a leakage certificate.")
    return leaks


def _starts(shard: Path) -> Iterator[int]:
    yield from range(0, len(read_index(shard).samples), _FEW_SAMPLES)


def find_leaks(shard: Path, start: int, guard: Guard, config: PipelineConfig) -> list[Leak]:
    """Of some samples of a shard; runs as a Ray task."""
    found = []
    with shard.open("rb") as stream:
        for key, offset, size, *_ in read_index(shard).samples[start : start + _FEW_SAMPLES]:
            stream.seek(offset)
            image = decode_image(stream.read(size), f"{key} in {shard.name}")
            match = guard.match(thumbnail_of_frame(image, config), config.leakage)
            if match is not None:
                found.append(Leak(key, shard.name, printable(match.name), match.sha256, match.correlation))
    return found


def _write_leaks(path: Path, leaks: list[Leak]) -> None:
    header = [field.name for field in dataclasses.fields(Leak)]
    write_text(path, csv_text(header, [dataclasses.astuple(leak) for leak in leaks]))


def read_keys(path: Path) -> list[str]:
    """The samples that such a file lists."""
    return [unescaped(row["key"]) for row in read_csv(path, ["key"])]


def _certify(files: ShardFolder, manifest: Manifest, sets: list[GuardedSet], config: CheckConfig) -> None:
    certificate = Certificate(guarded_sets=sets, frames_checked=manifest.frames, method=method_of(config.leakage))
    listed = read_checksums(files.checksums) if files.checksums.is_file() else None
    files.write_manifest(dataclasses.replace(manifest, leakage=certificate))
    if listed is not None:
        listed[files.manifest.name] = sha256_of(files.manifest)
        write_text(files.checksums, "".join(f"{digest}  {name}\n" for name, digest in listed.items()))
