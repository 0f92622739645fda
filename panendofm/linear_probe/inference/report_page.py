"""A video report as text and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from PIL import Image

from panendofm.atlas import load_mappings, load_taxonomy
from panendofm.imaging.images import thumbnail
from panendofm.linear_probe.inference.report_document import AgainstTruth, VideoReport
from panendofm.reports import PageImage, Table, render_page
from panendofm.reports.charts import color_of
from panendofm.reports.numbers import number


def terms(labels: Sequence[str], classes: Sequence[str]) -> dict[str, str]:
    """Labels in the atlas's terms, «colon polyp (colon, pathological findings)», where a dataset knows them all."""
    mapping = next((m for m in load_mappings().values() if set(classes) <= set(m.labels)), None)
    known = load_taxonomy().findings
    found = {}
    for label in labels:
        if mapping is not None and label in mapping.labels:
            first = mapping.labels[label][0]
            region = "" if first.region == "unknown" else f"{first.region}, "
            found[label] = f"{first.finding.replace('-', ' ')} ({region}{first.category.replace('-', ' ')})"
        elif label in known:
            finding = known[label]
            found[label] = f"{label.replace('-', ' ')} ({finding.region}, {finding.category.replace('-', ' ')})"
        else:
            found[label] = label.replace("-", " ")
    return found


def _short(term: str) -> str:
    """Without the region and category in brackets."""
    return term.split(" (")[0]


def report_text(report: VideoReport) -> str:
    names = terms(list(report.shares), report.classes)
    order = ", then ".join(_short(names.get(label, label)) for label in report.order_of_events)
    lines = [f"Video {report.video}, {report.seconds:.0f} seconds", "", "Main findings"]
    lines += [f"  {share:6.1%}  {names[label]}" for label, share in report.shares.items()]
    lines += ["", f"Order of events: {order or 'none'}.", "", "FROM   TO     WHERE         CONFIDENCE  FINDING"]
    lines += [
        f"{s.start_clock}  {s.end_clock}  {s.zone or 'not known':<13} {s.mean_confidence:<10.2f}  {names[s.label]}"
        for s in report.segments
    ]
    lines += ["", f"Network {report.network}, weights {report.weights_sha256[:16]}.", f"Note: {report.note}."]
    return "\n".join(lines) + "\n"


def report_page(report: VideoReport, key_frames: Sequence[Image.Image]) -> str:
    names = terms(list(report.shares), report.classes)
    segments = [
        [s.start_clock, s.end_clock, names[s.label], s.zone or "not known", number(s.mean_confidence, 2)]
        for s in report.segments
    ]
    checksums = ("network", "weights_sha256", "head_sha256", "video_sha256")
    return render_page(
        "panendofm.linear_probe",
        "video_report.html",
        title=f"Report of {report.video}",
        report=report,
        names=names,
        colors={label: color_of(i) for i, label in enumerate(report.shares)},
        shares=Table(["finding", "share of time"], [[names[k], f"{v:.1%}"] for k, v in report.shares.items()]),
        order=" → ".join(_short(names.get(label, label)) for label in report.order_of_events) or "none",
        segments=Table(["from", "to", "finding", "where", "mean confidence"], segments, numeric=False),
        key_frames=_key_frames(report, key_frames, names),
        truth=None if report.against_truth is None else _truth(report.against_truth),
        checksums=Table(["what", "value"], [[name, str(getattr(report, name))] for name in checksums], numeric=False),
    )


def _key_frames(report: VideoReport, key_frames: Sequence[Image.Image], names: dict[str, str]) -> list[PageImage]:
    images = []
    for segment, frame in zip(report.segments, key_frames, strict=True):
        place = segment.zone or "place not known"
        caption = f"{segment.start_clock}–{segment.end_clock} {names[segment.label]}, {place}"
        images.append(PageImage(thumbnail(frame.convert("RGB"), max(frame.size)), caption))
    return images


def _truth(found: AgainstTruth) -> Table:
    rows = [
        [name.replace("_", " "), number(value) if isinstance(value, float) else str(value)]
        for name, value in asdict(found).items()
        if not isinstance(value, dict)
    ]
    return Table(["metric", "value"], rows)
