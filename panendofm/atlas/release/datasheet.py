"""DATASHEET.md of a release: the questions of "Datasheets for Datasets", answered from the atlas."""

from __future__ import annotations

from collections import Counter

from panendofm.atlas.build import Atlas, overlaps
from panendofm.atlas.datasets.mapping import load_mappings
from panendofm.atlas.report.document import count_quality
from panendofm.atlas.split import SPLITS, SplitReport


def datasheet(name: str, atlas: Atlas, split: SplitReport) -> str:
    mappings = load_mappings()
    images = Counter(row.dataset for row in atlas.rows)
    different = len({row.sha256 for row in atlas.rows})
    with_patient = sum(row.patient is not None for row in atlas.rows)
    findings = {label.finding for row in atlas.rows for label in row.labels}
    quality = count_quality(atlas.rows)
    lines = [
        f"# {name}: datasheet",
        "",
        "## Motivation",
        "Public endoscopy datasets label the same things differently. This table puts them under one taxonomy, so that "
        "networks can be compared across organs, hospitals and instruments.",
        "",
        "## Composition",
        f"- {len(atlas.rows)} images of {len(images)} datasets; {different} different ones.",
        f"- {len(findings)} findings; an image may have several.",
        f"- {with_patient} images name their patient or case.",
        f"- Split: {', '.join(f'{split.images[side]} {side}' for side in SPLITS)}, in {split.groups} groups.",
        "",
        "| dataset | images | poor quality | country | license | where to get it |",
        "|---|---|---|---|---|---|",
    ]
    for dataset, count in sorted(images.items()):
        mapping = mappings.get(dataset)
        about = None if mapping is None else mapping.about
        country = "not stated" if about is None else ", ".join(about.countries)
        access = "not stated" if about is None else about.access
        license_ = "unknown" if mapping is None else mapping.license
        lines.append(f"| {dataset} | {count} | {quality[dataset].poor} | {country} | {license_} | {access} |")
    shared = [f"- {pair.a} and {pair.b}: {pair.identical_files} equal files" for pair in overlaps(atlas.rows)]
    lines += [
        "",
        "## Collection",
        "The hospitals of the source datasets collected and de-identified the images. Nothing was collected for this "
        "table.",
        "",
        "## Preprocessing and labeling",
        "Labels of the datasets were mapped by rules. Equal and nearly equal images form one group, and a group never "
        "crosses the split. Quality was measured automatically inside the field of view.",
        "",
        "Datasets that share images:",
        "",
        *(shared or ["- none"]),
        "",
        "## Uses",
        "Comparing networks on frozen features. Classes with few groups are not evaluable; the split says which. It is "
        "not for clinical use.",
        "",
        "## Distribution",
        "This folder holds labels, checksums and measures, no images. Get the datasets from their owners and rebuild "
        "the atlas with `panendofm atlas import`. The license of each dataset holds for its images and labels.",
        "",
        "## Maintenance",
        "Mistakes of a mapping are corrected in the software; export again to publish the correction.",
    ]
    return "\n".join(lines) + "\n"
