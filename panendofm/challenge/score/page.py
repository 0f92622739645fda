"""index.html of one scored submission: our row between the published ones, confusion, classes, worst errors."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from panendofm.challenge.charts import STYLE, confusion_table
from panendofm.challenge.published import tables as published
from panendofm.challenge.score.format_metric import shown
from panendofm.imaging.images import UnreadableImageError, open_image
from panendofm.reports import pages
from panendofm.reports.pages import text
from panendofm.scoring.classification.profiles import FIGURES

GALLERY = 20
_SIDE_PX = 240


def image(path: Path, boxes: Sequence[tuple[Sequence[float], str]] = ()) -> bytes | None:
    """A small JPEG, with boxes drawn in; None when the file is not to be read."""
    try:
        image = open_image(path)
    except UnreadableImageError:
        return None
    draw = ImageDraw.Draw(image)
    for (x, y, w, h), color in boxes:
        draw.rectangle((x, y, x + w, y + h), outline=color, width=max(2, image.width // 160))
    image.thumbnail((_SIDE_PX, _SIDE_PX), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def gallery(items: Sequence[tuple[bytes | None, str]]) -> str:
    """Images with what is wrong with them; a frame without an image where the file was not given."""
    figures = []
    for content, caption in items:
        shown_image = pages.image(content, caption, "jpeg") if content else '<p class="quiet">no image</p>'
        figures.append(f"<figure>{shown_image}<figcaption>{text(caption)}</figcaption></figure>")
    return f'<div class="gallery">{"".join(figures)}</div>' if figures else ""


def label_page(results: dict[str, Any], errors: Sequence[tuple[bytes | None, str]]) -> str:
    profile = results["profile"]
    body = [
        f"<h1>{text(results['team'])}, run {text(results['run'])}</h1>",
        f'<p class="quiet">{results["n"]} images, {len(results["classes"])} classes; profile {text(profile)} '
        f"({text(results['profiles'][profile]['about'])}); 95% intervals over {results['groups']['count']} "
        f"{text(results['groups']['kind'])}s.</p>",
        _warnings(results["warnings"]),
        pages.section("Figures", _figures(results)),
        pages.section("Beside the published rows", beside_published(results)),
        pages.section("Confusion", _confusion(results)),
        pages.section("Classes", _classes(results)),
        pages.section("Confidence and speed", _confidence(results)),
        pages.section("Surest wrong answers", gallery(errors)),
        _provenance(results),
    ]
    return pages.page(f"{results['team']}: {profile}", "\n".join(body), STYLE)


def _warnings(warnings: Sequence[str]) -> str:
    return "".join(f'<p class="note">{text(w)}</p>' for w in warnings)


def _figures(results: dict[str, Any]) -> str:
    rows = [
        [name + (" ← chosen" if name == results["profile"] else ""), *(shown(p["figures"][f]) for f in FIGURES)]
        for name, p in results["profiles"].items()
    ]
    house = results["house"]
    macro = house["macro"]
    rows.append(["our macro means", *(shown(macro.get(f)) for f in FIGURES[:-1]), f"{house['mcc_multiclass']:.4f}"])
    notes = (
        f'<p class="quiet">MCC: multi-class R_K {house["mcc_multiclass"]:.4f}; pooled {house["mcc_pooled"]:.4f} '
        f"(medico2017's); mean of the classes' {house['mcc_mean_of_classes']:.4f}. Three numbers, not one. Our macro "
        f"means are over the classes that have test images; profiles put 0 for what is undefined.</p>"
    )
    return pages.table(["profile", *FIGURES], rows, numbers=True) + notes


def beside_published(results: dict[str, Any]) -> str:
    """Our row in the order of the published ones, marked; misprints are said below."""
    name = {"medico2017": "medico2017", "medico2018": "medico2018", "biomedia2019": "biomedia2019"}.get(
        results["profile"]
    )
    if name is None:
        return ""
    table = published.published_table(f"{name}_classification")
    columns = ("recall", "precision", "specificity", "accuracy", "f1", "mcc")
    figures = results["profiles"][results["profile"]]["figures"]
    rows = [(row.figures["mcc"], False, [row.team, row.method, *(row.shown(c) for c in columns)]) for row in table.rows]
    own = [results["team"], "this submission", *(shown(figures[c]).split(" ")[0] for c in columns)]
    rows.append((figures["mcc"]["value"] or 0.0, True, own))
    rows.sort(key=lambda row: -row[0])
    lines = [
        f"<tr{' class=ours' if ours else ''}>{''.join(f'<td>{text(c)}</td>' for c in cells)}</tr>"
        for _, ours, cells in rows
    ]
    head = "".join(f"<th>{text(c)}</th>" for c in ("team", "method", *columns))
    misprints = [f"{row.team}, {c}: {why}" for row in table.rows for c, why in row.misprints.items()]
    notes = (f"<p>† misprinted: {text('; '.join(misprints))}.</p>" if misprints else "") + (
        f'<p class="quiet">{text(published.note())} {text(published.source())}.</p>'
    )
    return (
        f'<div class="scroll"><table class="numbers"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody>'
        f"</table></div>{notes}"
    )


def _confusion(results: dict[str, Any]) -> str:
    columns = [*results["classes"], *(["(missing)"] if results["missing_counted_as_wrong"] else [])]
    return confusion_table(results["classes"], columns, results["confusion"])


def _classes(results: dict[str, Any]) -> str:
    rows = []
    for name, row in sorted(results["per_class"].items(), key=lambda item: item[1]["recall"] or 0.0):
        interval = row["recall_interval"]
        recall = "not evaluable" if row["recall"] is None else f"{row['recall']:.4f}"
        low_high = f"{interval[0]:.4f}–{interval[1]:.4f}" if interval else ""
        others = ["–" if row[k] is None else f"{row[k]:.4f}" for k in ("precision", "specificity", "f1", "mcc")]
        rows.append([name, str(row["images"]), recall, low_high, *others])
    head = ["class, worst first", "images", "recall", "95% (Wilson)", "precision", "specificity", "F1", "MCC"]
    return pages.table(head, rows, numbers=True)


def _confidence(results: dict[str, Any]) -> str:
    found, speed, levels = results["confidence"], results["speed"], results["levels"]
    rows = [["expected calibration error", _number(found["expected_calibration_error"])]]
    rows += [
        [f"wrong among the surest {float(share):.0%}", shown(value)]
        for share, value in found["risk_at_coverage"].items()
    ]
    if levels:
        rows += [
            ["right region", _number(levels["region"])],
            ["right category", _number(levels["category"])],
        ]
    if speed:
        times = ", ".join(f"{speed[k]:.2f}" for k in ("mean_ms", "median_ms", "p95_ms"))
        real = ", ".join(f"{k.removeprefix('at_')}: {'yes' if v else 'no'}" for k, v in speed["real_time"].items())
        rows += [
            [f"images per second ({speed['source']})", shown(speed["fps"], 2)],
            ["milliseconds: mean, median, p95", times],
            ["real time at", real],
        ]
    return pages.table(["figure", "value"], rows, numbers=True)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _provenance(results: dict[str, Any]) -> str:
    rows = [[k.replace("_", " "), str(v)] for k, v in results["provenance"].items()]
    return pages.details("Files and checksums", pages.table(["what", "value"], rows))


def finding_page(results: dict[str, Any], errors: Sequence[tuple[bytes | None, str]]) -> str:
    """Detection or segmentation."""
    title = f"{results['team']}: {results['type']}"
    sections = [f"<h1>{text(title)}</h1>", _warnings(results["warnings"])]
    sections.append(
        f'<p class="quiet">{results["n"]} frames; 95% intervals over {results["groups"]["count"]} '
        f"{text(results['groups']['kind'])}s.</p>"
    )
    if results["type"] == "detection":
        for name, profile in results["profiles"].items():
            rows = [[k, shown(v)] for k, v in profile["figures"].items()]
            about = f'<p class="quiet">{text(profile["about"])}; mean over {profile["classes_with_truth"]} classes.</p>'
            sections.append(pages.section(f"Profile {name}", about + pages.table(["figure", "value"], rows, True)))
        sections += [_detection_class(name, row, results) for name, row in results["per_class"].items()]
    else:
        for name, row in results["per_class"].items():
            columns = ["mean_over_images", "mean_over_images_with_a_finding"]
            rows = [[k, *(shown(row[c][k]) for c in columns)] for k in row[columns[0]]]
            nothing = row["correct_nothing"]
            note = (
                f'<p class="quiet">Images without a finding: {nothing["images_without_finding"]}, left empty: '
                f"{nothing['left_empty']} ({shown(nothing['rate'])}). Pooled pixels: "
                + ", ".join(f"{k} {shown(v)}" for k, v in row["pooled_pixels"].items())
                + ".</p>"
            )
            head = ["figure", "all images", "images with a finding"]
            sections.append(pages.section(name, pages.table(head, rows, True) + note))
    sections.append(_extras(results))
    sections += [pages.section("Worst misses and false alarms", gallery(errors)), _provenance(results)]
    return pages.page(title, "\n".join(sections), STYLE)


def _detection_class(name: str, row: dict[str, Any], results: dict[str, Any]) -> str:
    readings = [
        [reading.replace("_", " "), *(str(row[reading][k]) for k in ("tp", "fp", "fn", "tn"))]
        + [shown(row[reading][k]) for k in ("recall", "specificity", "precision", "npv")]
        for reading in ("frames_presence", "frames_presence_and_place")
    ]
    head = ["frames", "TP", "FP", "FN", "TN", "sensitivity", "specificity", "PPV", "NPV"]
    froc = [[f"{k} false boxes a frame", shown(v)] for k, v in row["froc"].items()]
    threshold = f'<p class="quiet">At confidence {results["confidence_threshold"]:g} and IoU 0.5.</p>'
    body = threshold + pages.table(head, readings, True) + pages.table(["FROC", "sensitivity"], froc, True)
    return pages.section(name, body)


def _extras(results: dict[str, Any]) -> str:
    parts = []
    if "patients" in results:
        rows = [
            [name, "not evaluable (no histology)" if value is None else shown(value)]
            for name, value in results["patients"]["figures"].items()
        ]
        parts.append(pages.section("Patients", pages.table(["figure", "value"], rows, True)))
    for name in ("centers", "by_size", "videos", "mean_iou_of_classes"):
        if results.get(name):
            rows = [[key, _plain(value)] for key, value in results[name].items()]
            parts.append(pages.section(name.replace("_", " "), pages.table(["what", "value"], rows)))
    return "".join(parts)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{k} {_plain(v)}" for k, v in value.items())
    return f"{value:.4f}" if isinstance(value, float) else "–" if value is None else str(value)
