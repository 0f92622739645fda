"""`verify`: re-check a finished set from its bytes alone."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.compute as pc
import simplejpeg

from data_pipeline.config import PipelineConfig
from data_pipeline.output.tars import sample_record
from panendofm.records.shards import FrameRow, ShardFolder, index_name, read_index
from panendofm.runtime.console import say, track, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import failed_checksums
from panendofm.runtime.parquet_files import read_parquet


@dataclass
class Verification:
    """What was checked, and every fault that was found."""

    shards: int = 0
    frames: int = 0
    faults: list[str] = field(default_factory=list)


def verify(config: PipelineConfig) -> Verification:
    """Check checksums, indexes, decodability, duplicates and the manifest against the shards."""
    out = config.out_dir
    files = ShardFolder(out)
    files.refuse_unfinished()
    result = Verification(faults=[f"{name}: missing or changed since it was written" for name in failed_checksums(out)])
    if files.manifest.is_file() and files.frames.is_file():
        try:
            _check_content(files, result)
        except UserError as error:
            result.faults.append(str(error).rstrip("."))
    for fault in result.faults[:50]:
        warn(fault)
    if not result.faults:
        say(f"verified {out}: {result.frames} frames in {result.shards} shards, no fault.")
    return result


def _check_content(files: ShardFolder, result: Verification) -> None:
    """Shard by shard, with only that shard's rows as Python objects: a manifest may list millions."""
    manifest = files.read_manifest()
    frames, out = read_parquet(files.frames, "make the shards again, or restore the file"), files.path
    seen: Counter[str] = Counter()
    for number, name in enumerate(track(manifest.shards, "verifying", len(manifest.shards), "shards")):
        if not (out / name).is_file() or not (out / index_name(name)).is_file():
            continue  # the checksums have said so
        rows = frames.filter(pc.equal(frames.column("shard"), number)).to_pylist()
        _check_shard(out / name, {row["key"]: row for row in rows}, seen, result)
        result.shards += 1
    result.frames = sum(seen.values())
    result.faults += [f"the sample {key} is in the shards {count} times" for key, count in seen.items() if count > 1]
    listed = frames.column("key").to_pylist()
    result.faults += [f"{files.frames.name} lists {key}, which is in no shard" for key in listed if key not in seen]
    if manifest.frames != len(listed):
        result.faults.append(
            f"{files.manifest.name} says {manifest.frames} frames, {files.frames.name} lists {len(listed)}"
        )
    digests = Counter(frames.column("sha256").to_pylist())
    result.faults += [
        f"{count} frames have the same bytes ({digest})" for digest, count in digests.items() if count > 1
    ]


def _check_shard(path: Path, rows: dict[str, FrameRow], seen: Counter[str], result: Verification) -> None:
    """`rows` are those that the manifest lists in this shard, by key."""
    try:
        with tarfile.open(path, "r:") as tar:
            members = {member.name: member for member in tar}
    except (tarfile.TarError, ValueError, OverflowError) as error:
        result.faults.append(f"{path.name}: not a readable tar file ({error})")
        return
    index = read_index(path)
    listed = index.samples
    if index.tar_bytes != path.stat().st_size:
        result.faults.append(f"{path.name}: {path.stat().st_size} bytes, the index says {index.tar_bytes}")
    if len(members) != 2 * len(listed):
        result.faults.append(f"{path.name}: {len(members)} files, the index lists {len(listed)} samples")
    with path.open("rb") as stream:
        for key, *places in listed:
            seen[key] += 1
            contents = []
            for suffix, offset, size in (("jpg", places[0], places[1]), ("json", places[2], places[3])):
                member = members.get(f"{key}.{suffix}")
                if member is None or (member.offset_data, member.size) != (offset, size):
                    result.faults.append(f"{path.name}: the index is wrong about {key}.{suffix}")
                stream.seek(offset)
                contents.append(stream.read(size))
            fault = _fault_of_sample(contents[0], contents[1], rows.get(key))
            if fault is not None:
                result.faults.append(f"{path.name}: {key} {fault}")


def _fault_of_sample(jpeg: bytes, record: bytes, row: FrameRow | None) -> str | None:
    if row is None:
        return "is not listed in this shard by the manifest"
    if hashlib.sha256(jpeg).hexdigest() != row["sha256"]:
        return "has other bytes than the manifest says"
    try:
        height, width = simplejpeg.decode_jpeg(jpeg).shape[:2]
    except ValueError as error:
        return f"does not decode ({error})"
    if (width, height) != (row["width"], row["height"]):
        return f"is {width}x{height} pixels, the manifest says {row['width']}x{row['height']}"
    try:
        content = json.loads(record)
    except ValueError:
        return "has a JSON file that can't be read"
    return None if content == sample_record(row) else "has a JSON file that differs from the manifest"
