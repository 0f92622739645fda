"""`report`: one HTML file that shows what was kept, what was dropped and why. It fetches nothing from elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data_pipeline.config import PipelineConfig
from data_pipeline.output.kept_frames import sample_kept
from data_pipeline.reporting.private_report import losses_table, write_private_report
from data_pipeline.reporting.source_report import SourceLoss, losses_of
from panendofm.records.shards import Certificate, Manifest, PrivateFolder, ShardFolder
from panendofm.reports import pages
from panendofm.reports.pages import text
from panendofm.runtime.console import say
from panendofm.runtime.files import write_text
from panendofm.runtime.parquet_files import read_parquet

REASONS = {
    "no_field_of_view": "no picture found in the frame",
    "too_dark": "too dark",
    "washed_out": "overexposed",
    "blurred": "blurred",
    "not_endoscopy": "no endoscope's colours: paper, a mask, a screen",
    "frozen": "the same as the frame before",
    "near_duplicate": "nearly the same as a kept frame of the video",
    "evaluation_image": "a copy of an evaluation image",
    "text": "readable text",
    "duplicate_video": "its video is a copy of another",
    "duplicate_image": "a copy of another picture",
}

# What the page needs of every frame; a manifest may list millions.
_FRAME_COLUMNS = (
    *("key", "corpus", "source", "shard", "text_filled", "brightness", "sharpness"),
    *("width", "height", "original_width", "original_height"),
)
_KEPT_PER_CORPUS = 48

_STYLE = """
.sheet { display: flex; flex-wrap: wrap; gap: 4px; } .sheet img { height: 104px; } .pair { margin-right: 14px; }
svg { margin: .4rem 1.2rem .4rem 0; }
"""


def report(config: PipelineConfig) -> Path:
    """Write OUT/report.html from a finished set."""
    files = ShardFolder(config.out_dir)
    files.refuse_unfinished()
    manifest = files.read_manifest()
    frames = read_parquet(
        files.frames, "make the shards again, or restore the file", _FRAME_COLUMNS, dictionaries=("corpus", "source")
    )
    examples = read_parquet(files.examples, "make the shards again, or restore the file").to_pylist()
    private = PrivateFolder(config.private_dir)
    losses: list[SourceLoss] = []
    if private.sources.is_file():  # a set that was handed on has none
        losses = losses_of(read_parquet(private.sources, "make the shards again"), frames)
        write_private_report(private, losses)
    sections = [
        _head(manifest),
        _suspicious(losses),
        _corpora(manifest),
        _drops(manifest, examples),
        _kept(frames, sample_kept(config.out_dir, frames, _KEPT_PER_CORPUS)),
        _text(manifest, examples),
        _leakage(manifest, examples),
    ]
    write_text(files.report, pages.page("Shards", "".join(sections), _STYLE))
    say(f"wrote {files.report}")
    return files.report


def _head(manifest: Manifest) -> str:
    seen = sum(corpus["seen"] for corpus in manifest.corpora.values())
    share = 100 * manifest.frames / max(seen, 1)
    licences = "; ".join(text(licence) for licence in manifest.licences)
    return (
        f"<h1>{manifest.frames:,} frames in {len(manifest.shards)} shards</h1>"
        f"<p>{seen:,} frames were looked at, {share:.1f}% were kept. Licences of the sources: {licences}.</p>"
    )


def _corpora(manifest: Manifest) -> str:
    rows = [
        [
            name,
            f"{c['sources']:,}",
            f"{c['seen']:,}",
            f"{c['kept']:,}",
            f"{100 * c['kept'] / max(c['seen'], 1):.1f}%",
            f"{c['broken_files']:,}",
        ]
        for name, c in manifest.corpora.items()
    ]
    left_out = "".join(f"<li>{text(reason)}: {count:,} sources</li>" for reason, count in manifest.left_out.items())
    return (
        "<h2>Corpora</h2>"
        + _table(["corpus", "sources", "frames seen", "kept", "share", "broken files"], rows)
        + (f"<p>Left out before reading:</p><ul>{left_out}</ul>" if left_out else "")
    )


def _drops(manifest: Manifest, examples: list[dict[str, Any]]) -> str:
    corpora = manifest.corpora
    total: Counter[str] = Counter()
    for corpus in corpora.values():
        total.update(corpus["dropped"])
    rows = [
        [REASONS.get(reason, reason), *(f"{c['dropped'].get(reason, 0):,}" for c in corpora.values()), f"{count:,}"]
        for reason, count in total.most_common()
    ]
    sheets = "".join(
        f"<h3>{text(REASONS[reason])}</h3>{_sheet(examples, reason)}"
        for reason, _ in total.most_common()
        if reason in REASONS and reason != "evaluation_image" and any(e["reason"] == reason for e in examples)
    )
    return "<h2>Dropped frames</h2>" + _table(["reason", *corpora, "all"], rows) + sheets


def _suspicious(losses: list[SourceLoss]) -> str:
    """By hashed names; the private report has the real ones."""
    odd = [loss for loss in losses if loss.why]
    if not losses:
        return ""
    if not odd:
        return "<h2>Sources to look at</h2><p>None stands out.</p>"
    return (
        f"<h2>Sources to look at</h2><p>{len(odd):,} of {len(losses):,} sources, the most suspicious first.</p>"
        + losses_table(odd, private=False)
    )


def _kept(frames: Any, pictures: dict[str, list[bytes]]) -> str:
    longest = np.maximum(frames.column("width").to_numpy(), frames.column("height").to_numpy())
    original = np.maximum(frames.column("original_width").to_numpy(), frames.column("original_height").to_numpy())
    return (
        "<h2>Kept frames</h2><p>Random frames of each corpus, as they are in the shards.</p>"
        + "".join(
            f"<h3>{text(corpus)}</h3><div class=sheet>{''.join(map(_image, jpegs))}</div>"
            for corpus, jpegs in pictures.items()
        )
        + _histogram("longer side of the source, px", original)
        + _histogram("longer side in the shards, px", longest)
        + _histogram("mean brightness, 0-255", frames.column("brightness").to_numpy())
        + _histogram("sharpness", frames.column("sharpness").to_numpy())
    )


def _text(manifest: Manifest, examples: list[dict[str, Any]]) -> str:
    audit = manifest.text_audit
    rows = []
    for when, label in (("before", "as the frames came"), ("after", "in the shards")):
        read = audit.get(f"{when}_read", 0)
        if read:
            shares = [100 * audit.get(f"{when}_{what}", 0) / read for what in ("text", "private")]
            rows.append([label, f"{read:,}", *(f"{share:.1f}%" for share in shares)])
    if not rows:
        return "<h2>Text</h2><p class=quiet>No frame was read: screen.text.reader is none.</p>"
    left = _sheet(examples, "text_left")
    return (
        "<h2>Text</h2>"
        + _table(["", "frames read", "with text", "with a date, time or patient field"], rows)
        + "<p>Frames from which text was removed, as they are in the shards:</p>"
        + _sheet(examples, "text_removed")
        + (f"<p>Frames on which text is still found:</p>{left}" if left else "")
    )


def _leakage(manifest: Manifest, examples: list[dict[str, Any]]) -> str:
    certificate = manifest.leakage or Certificate()
    if not certificate.guarded_sets:
        body = "<p><b>No evaluation set was guarded.</b></p>"
    else:
        rows = [
            [s.name, f"{s.images:,}", f"{s.unreadable:,}", f"{s.frames_dropped:,}", (s.fingerprint or "")[:16]]
            for s in certificate.guarded_sets
        ]
        body = _table(["guarded set", "images", "unreadable", "frames dropped", "fingerprint"], rows)
        method = certificate.method
        body += (
            f"<p>{certificate.frames_checked:,} frames were compared, {certificate.frames_dropped:,} dropped as "
            f"copies of {len(certificate.images_found):,} evaluation images. "
            f"Method: {text(method['quick_search'])}; "
            f"then {text(method['comparison'])}, at least {method['min_correlation']}.</p>"
        )
        pairs = [e for e in examples if e["reason"] == "evaluation_image"]
        body += (
            "<p>Dropped frame and evaluation image:</p><div class=sheet>"
            + "".join(f"<span class=pair>{_image(e['jpeg'])}{_image(e['beside'])}</span>" for e in pairs)
            + "</div>"
        )
    known = "".join(
        f"<li>{text(o['part'])} and {text(o['of'])}: {text(o['what'])}</li>" for o in certificate.known_overlaps
    )
    return f"<h2>Leakage</h2>{body}" + (f"<p>Known overlaps with evaluation sets:</p><ul>{known}</ul>" if known else "")


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return pages.table(columns, rows, numbers=True)


def _sheet(examples: list[dict[str, Any]], reason: str) -> str:
    images = "".join(_image(example["jpeg"]) for example in examples if example["reason"] == reason)
    return f"<div class=sheet>{images}</div>" if images else ""


def _image(jpeg: bytes) -> str:
    return pages.image(jpeg, kind="jpeg")


def _histogram(title: str, values: np.ndarray[Any, np.dtype[Any]], bins: int = 30) -> str:
    """Bars as plain SVG."""
    counts, edges = np.histogram(values, bins=bins)
    width, height, top = 480, 110, max(int(counts.max()), 1)
    step = width / bins
    bars = "".join(
        f'<rect x="{i * step:.1f}" y="{height - h:.1f}" width="{step - 1:.1f}" height="{h:.1f}" fill="#3a7d8c"/>'
        for i, h in enumerate((height * counts / top).tolist())
    )
    labels = (
        f'<text x="0" y="{height + 15}">{edges[0]:.4g}</text>'
        f'<text x="{width}" y="{height + 15}" text-anchor="end">{edges[-1]:.4g}</text>'
        f'<text x="{width / 2}" y="{height + 15}" text-anchor="middle">{text(title)}</text>'
    )
    return f'<svg width="{width}" height="{height + 22}" font-size="12" font-family="system-ui">{bars}{labels}</svg>'
