"""A video report as text and as a page."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from PIL import Image

from panendofm.atlas import load_mappings, load_taxonomy
from panendofm.reports import pages
from panendofm.reports.pages import text

_COLOURS = (
    "#1f5aa0",
    "#c0562f",
    "#3c8a4d",
    "#8a5aa8",
    "#b8952a",
    "#4a9aa8",
    "#a84a72",
    "#6b6b6b",
    "#7a9a2a",
    "#2a6b6b",
)
STYLE = """
.line { display: flex; height: 2.2rem; border-radius: 6px; overflow: hidden; margin: 0.5rem 0; }
.line span { display: block; min-width: 1px; }
.legend span { display: inline-block; margin-right: 1rem; }
.legend i { display: inline-block; width: 0.8rem; height: 0.8rem; border-radius: 2px; margin-right: 0.3rem; }
.frames { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 0.75rem; }
"""


def terms(labels: Sequence[str], classes: Sequence[str]) -> dict[str, str]:
    """Labels in the atlas's words, «colon polyp (colon, pathological findings)», where a dataset knows them all."""
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


def report_text(document: dict[str, Any]) -> str:
    words = terms(list(document["shares"]), document["classes"])
    lines = [f"Video {document['video']}, {document['seconds']:.0f} seconds", "", "Main findings"]
    lines += [f"  {share:6.1%}  {words[label]}" for label, share in document["shares"].items()]
    order = ", then ".join(_short(words.get(name, name)) for name in document["order_of_events"])
    lines += ["", f"Order of events: {order or 'none'}.", "", "FROM   TO     WHERE         CONFIDENCE  FINDING"]
    lines += [
        f"{s['from']}  {s['to']}  {s['zone'] or 'not known':<13} {s['mean_confidence']:<10.2f}  {words[s['label']]}"
        for s in document["segments"]
    ]
    lines += [
        "",
        f"Network {document['network']}, weights {document['weights_sha256'][:16]}.",
        f"Note: {document['note']}.",
    ]
    return "\n".join(lines) + "\n"


def report_page(document: dict[str, Any], key_frames: Sequence[Image.Image]) -> str:
    words = terms(list(document["shares"]), document["classes"])
    colour = {label: _COLOURS[i % len(_COLOURS)] for i, label in enumerate(document["shares"])}
    order = " → ".join(_short(words.get(name, name)) for name in document["order_of_events"])
    body = [
        f"<h1>{text(document['video'])}</h1>",
        f'<p class="quiet">{document["seconds"]:.0f} s at {document["fps"]:g} frames a second; '
        f"{text(document['note'])}.</p>",
        _timeline(document, colour, words),
        pages.section(
            "Main findings", pages.table(["finding", "share of time"], _shares(document, words), numbers=True)
        ),
        pages.section("Order of events", f"<p>{text(order or 'none')}</p>"),
        pages.section("Findings over time", _segments(document, words)),
        pages.section("Key frames", _frames(document, key_frames, words)),
        pages.section("Against the truth", _truth(document)),
        pages.details(
            "Network and head",
            pages.table(
                ["what", "value"],
                [[k, str(document[k])] for k in ("network", "weights_sha256", "head_sha256", "video_sha256")],
            ),
        ),
    ]
    return pages.page(f"Report of {document['video']}", "\n".join(body), STYLE)


def _shares(document: dict[str, Any], words: dict[str, str]) -> list[list[str]]:
    return [[words[label], f"{share:.1%}"] for label, share in document["shares"].items()]


def _timeline(document: dict[str, Any], colour: dict[str, str], words: dict[str, str]) -> str:
    parts = "".join(
        f'<span style="flex: {s["end_frame"] - s["first_frame"]}; background: {colour[s["label"]]}" '
        f'title="{text(words[s["label"]])} {s["from"]}–{s["to"]}"></span>'
        for s in document["segments"]
    )
    legend = "".join(
        f'<span><i style="background: {value}"></i>{text(words[label])}</span>' for label, value in colour.items()
    )
    return f'<div class="line">{parts}</div><p class="legend">{legend}</p>'


def _segments(document: dict[str, Any], words: dict[str, str]) -> str:
    rows = [
        [s["from"], s["to"], words[s["label"]], s["zone"] or "not known", f"{s['mean_confidence']:.2f}"]
        for s in document["segments"]
    ]
    return pages.table(["from", "to", "finding", "where", "mean confidence"], rows)


def _frames(document: dict[str, Any], key_frames: Sequence[Image.Image], words: dict[str, str]) -> str:
    figures = []
    for segment, picture in zip(document["segments"], key_frames, strict=True):
        buffer = io.BytesIO()
        picture.convert("RGB").save(buffer, "JPEG", quality=85)
        caption = f"{segment['from']}–{segment['to']} {words[segment['label']]}, {segment['zone'] or 'place not known'}"
        image = pages.image(buffer.getvalue(), caption, "jpeg")
        figures.append(f"<figure>{image}<figcaption>{text(caption)}</figcaption></figure>")
    return f'<div class="frames">{"".join(figures)}</div>'


def _truth(document: dict[str, Any]) -> str:
    found = document.get("against_truth")
    if not found:
        return ""
    rows = [
        [k.replace("_", " "), f"{v:.3f}" if isinstance(v, float) else str(v)]
        for k, v in found.items()
        if not isinstance(v, dict)
    ]
    return pages.table(["figure", "value"], rows, numbers=True)
