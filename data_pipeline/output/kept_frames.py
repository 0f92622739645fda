"""A fair sample of the frames in finished shards, corpus by corpus, as small images."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import simplejpeg

from data_pipeline.reporting.examples import EXAMPLE_PX
from panendofm.imaging.images import thumbnail
from panendofm.records.shards import read_index, shard_name


def sample_kept(out: Path, frames: pa.Table, per_corpus: int) -> dict[str, list[bytes]]:
    """Corpus → small JPEGs. Keys are hashes, so that those with the lowest ones are a random choice."""
    chosen: dict[str, list[tuple[str, int]]] = {}
    by_key = frames.select(["key", "corpus", "shard"])
    for corpus in pc.unique(by_key.column("corpus")).to_pylist():
        own = by_key.filter(pc.equal(by_key.column("corpus"), corpus))
        first = own.take(pc.select_k_unstable(own, per_corpus, [("key", "ascending")])).to_pylist()
        chosen[corpus] = [(row["key"], row["shard"]) for row in first]
    wanted = {key for keys in chosen.values() for key, _ in keys}
    images: dict[str, bytes] = {}
    for shard in sorted({shard for keys in chosen.values() for _, shard in keys}):
        images |= _read(out / shard_name(shard), wanted)
    return {corpus: [images[key] for key, _ in keys] for corpus, keys in sorted(chosen.items())}


def _read(tar: Path, wanted: set[str]) -> dict[str, bytes]:
    found = {}
    with tar.open("rb") as stream:
        for key, start, size, _, _ in read_index(tar).samples:
            if key in wanted:
                stream.seek(start)
                found[key] = thumbnail(simplejpeg.decode_jpeg(stream.read(size)), EXAMPLE_PX)
    return found
