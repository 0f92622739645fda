"""`report`: one HTML file that shows what was kept, what was dropped and why; and Croissant metadata beside it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from data_pipeline.config import PipelineConfig
from data_pipeline.output.kept_frames import sample_kept
from data_pipeline.reporting.croissant import write_croissant
from data_pipeline.reporting.examples import ExampleRow
from data_pipeline.reporting.private_report import write_private_report
from data_pipeline.reporting.source_report import SourceReport, source_reports, source_table
from panendofm.records.shards import Certificate, Manifest, PrivateFolder, ShardFolder
from panendofm.reports import PageImage, Table, render_page
from panendofm.reports.charts import histogram
from panendofm.reports.numbers import percent
from panendofm.runtime.console import say
from panendofm.runtime.files import write_text
from panendofm.runtime.parquet_files import read_parquet

REASONS = {
    "no_field_of_view": "no field of view found in the frame",
    "too_dark": "too dark",
    "washed_out": "overexposed",
    "blurred": "blurred",
    "not_endoscopy": "no endoscope's colors: paper, a mask, a screen",
    "frozen": "the same as the frame before",
    "near_duplicate": "nearly the same as a kept frame of the video",
    "evaluation_image": "a copy of an evaluation image",
    "text": "readable text",
    "duplicate_video": "its video is a copy of another",
    "duplicate_image": "a copy of another image",
}
_LEAK = "evaluation_image"

# What the page needs of every frame; a manifest may list millions.
_FRAME_COLUMNS = (
    *("key", "corpus", "source", "shard", "text_filled", "brightness", "sharpness"),
    *("width", "height", "original_width", "original_height"),
)
_KEPT_PER_CORPUS = 48
_BINS = 30
_REMEDY = "make the shards again, or restore the file"


def report(config: PipelineConfig) -> Path:
    """Write OUT/report.html and OUT/croissant.json from a finished set."""
    files = ShardFolder(config.out_dir)
    files.refuse_unfinished()
    frames = read_parquet(files.frames, _REMEDY, _FRAME_COLUMNS, dictionaries=("corpus", "source"))
    examples = read_parquet(files.examples, _REMEDY).to_pylist()
    private = PrivateFolder(config.private_dir)
    sources: list[SourceReport] = []
    if private.sources.is_file():  # a set that was handed on has none
        sources = source_reports(read_parquet(private.sources, "make the shards again"), frames)
        write_private_report(private, sources)
    kept = sample_kept(config.out_dir, frames, _KEPT_PER_CORPUS)
    write_text(files.report, _page(files.read_manifest(), frames, examples, sources, kept))
    write_croissant(files)
    say(f"wrote {files.report}")
    return files.report


def _page(
    manifest: Manifest,
    frames: Any,
    examples: list[ExampleRow],
    sources: list[SourceReport],
    kept: dict[str, list[bytes]],
) -> str:
    seen = sum(corpus.seen for corpus in manifest.corpora.values())
    suspicious = [source for source in sources if source.why]
    drops = _drops(manifest)
    certificate = manifest.leakage or Certificate()
    pairs = [example for example in examples if example["reason"] == _LEAK]
    return render_page(
        "data_pipeline",
        "shards.html",
        title="Shards",
        manifest=manifest,
        seen=seen,
        kept_percent=percent(manifest.frames / max(seen, 1), 1),
        sources=sources,
        suspicious_sources=len(suspicious),
        suspicious=source_table(suspicious, private=False),
        corpora=_corpora(manifest),
        drops=_drop_table(manifest, drops),
        drop_examples=[
            (REASONS[reason], images)
            for reason in drops
            if reason in REASONS and reason != _LEAK and (images := _examples(examples, reason))
        ],
        kept=[(corpus, [PageImage(jpeg) for jpeg in jpegs]) for corpus, jpegs in kept.items()],
        histograms=_histograms(frames),
        text=_text(manifest),
        text_removed=_examples(examples, "text_removed"),
        text_left=_examples(examples, "text_left"),
        certificate=certificate,
        guarded=_guarded(certificate),
        leaks=[(PageImage(example["jpeg"]), PageImage(example["beside"])) for example in pairs],
    )


def _corpora(manifest: Manifest) -> Table:
    rows = [
        [
            name,
            f"{corpus.sources:,}",
            f"{corpus.seen:,}",
            f"{corpus.kept:,}",
            percent(corpus.kept / max(corpus.seen, 1), 1),
            f"{corpus.broken_files:,}",
        ]
        for name, corpus in manifest.corpora.items()
    ]
    return Table(["corpus", "sources", "frames seen", "kept", "share", "broken files"], rows)


def _drops(manifest: Manifest) -> dict[str, int]:
    """Frames by reason, the most frequent first."""
    total: Counter[str] = Counter()
    for corpus in manifest.corpora.values():
        total.update(corpus.dropped)
    return dict(total.most_common())


def _drop_table(manifest: Manifest, drops: dict[str, int]) -> Table:
    corpora = manifest.corpora
    rows = [
        [REASONS.get(reason, reason), *(f"{c.dropped.get(reason, 0):,}" for c in corpora.values()), f"{count:,}"]
        for reason, count in drops.items()
    ]
    return Table(["reason", *corpora, "all"], rows)


def _histograms(frames: Any) -> list[Markup]:
    def column(name: str) -> NDArray[Any]:
        values: NDArray[Any] = frames.column(name).to_numpy()
        return values

    shown = {
        "longer side of the source, px": np.maximum(column("original_width"), column("original_height")),
        "longer side in the shards, px": np.maximum(column("width"), column("height")),
        "mean brightness, 0-255": column("brightness"),
        "sharpness": column("sharpness"),
    }
    charts = []
    for title, values in shown.items():
        counts, edges = np.histogram(values, bins=_BINS)
        charts.append(histogram(title, edges.tolist(), counts.tolist()))
    return charts


def _text(manifest: Manifest) -> Table:
    audit = manifest.text_audit
    rows = []
    before = (audit.before_read, audit.before_text, audit.before_private)
    after = (audit.after_read, audit.after_text, audit.after_private)
    for label, (read, text, private) in {"as the frames came": before, "in the shards": after}.items():
        if read:
            rows.append([label, f"{read:,}", percent(text / read, 1), percent(private / read, 1)])
    return Table(["", "frames read", "with text", "with a date, time or patient field"], rows)


def _guarded(certificate: Certificate) -> Table:
    rows = [
        [one.name, f"{one.images:,}", f"{one.unreadable:,}", f"{one.frames_dropped:,}", (one.fingerprint or "")[:16]]
        for one in certificate.guarded_sets
    ]
    return Table(["guarded set", "images", "unreadable", "frames dropped", "fingerprint"], rows)


def _examples(examples: list[ExampleRow], reason: str) -> list[PageImage]:
    return [PageImage(example["jpeg"]) for example in examples if example["reason"] == reason]
