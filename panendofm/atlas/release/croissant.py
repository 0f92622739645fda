"""Metadata of a release in the Croissant format, with the fields of its responsible-AI vocabulary."""

from __future__ import annotations

from typing import Any

from panendofm.atlas.build import Atlas
from panendofm.atlas.datasets.mapping import load_mappings
from panendofm.atlas.release.images_csv import COLUMNS
from panendofm.atlas.report.document import count_quality

_INTEGERS = {"group", "content", "width", "height"}
_FLOATS = {"brightness", "washed_out", "sharpness", "mucosa"}
_FORMATS = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet", ".md": "text/markdown"}

_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "equivalentProperty": "cr:equivalentProperty",
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def croissant(name: str, version: str, atlas: Atlas, checksums: dict[str, str]) -> dict[str, Any]:
    """`checksums` of the files beside it; images.csv must be among them."""
    mappings = load_mappings()
    datasets = sorted({row.dataset for row in atlas.rows})
    licenses = {d: mappings[d].license if d in mappings else "unknown" for d in datasets}
    quality = count_quality(atlas.rows)
    poor = sum(counts.poor for counts in quality.values())
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": name,
        "version": version,
        "description": (
            f"Labels, splits and quality of {len(atlas.rows)} images of {len(datasets)} public endoscopy datasets "
            "under one taxonomy of four levels. The images stay with their datasets."
        ),
        "license": [f"{dataset}: {license_}" for dataset, license_ in licenses.items()],
        "citeAs": "Cite the source datasets.",
        "isLiveDataset": False,
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": file,
                "name": file,
                "contentUrl": file,
                "encodingFormat": _FORMATS["." + file.rsplit(".", 1)[1]],
                "sha256": digest,
            }
            for file, digest in checksums.items()
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "images",
                "name": "images",
                "description": "One record an image.",
                "field": [_field(column, meaning) for column, meaning in COLUMNS.items()],
            }
        ],
        "rai:dataCollection": "Images of public datasets, taken during routine endoscopy and capsule endoscopy.",
        "rai:dataCollectionType": "Secondary data analysis",
        "rai:dataAnnotationProtocol": (
            "Labels of the source datasets, mapped into one taxonomy by rules that are part of the software. No image "
            "was labeled anew."
        ),
        "rai:dataPreprocessingProtocol": [
            "Equal and nearly equal images are found by checksums and perceptual hashes, and never cross the split.",
            "Brightness, overexposure, sharpness and visible mucosa are measured inside the field of view.",
        ],
        "rai:personalSensitiveInformation": [
            "Images of patients, published by their hospitals after de-identification. Overlay text was not removed."
        ],
        "rai:dataBiases": [
            "Most images come from a few hospitals and makers of endoscopes; findings are rarer or more common than in "
            "practice.",
            f"{poor} images are of poor quality by automatic measures.",
        ],
        "rai:dataLimitations": [
            "Labels were given for other purposes, and an image may show findings that its label does not name.",
            "Where a dataset has no patient ids, near-duplicate images stand in for them in the split.",
        ],
        "rai:dataUseCases": ["Training and comparing classifiers on frozen features; not for clinical use."],
    }


def _field(column: str, meaning: str) -> dict[str, Any]:
    kind = "sc:Integer" if column in _INTEGERS else "sc:Float" if column in _FLOATS else "sc:Text"
    return {
        "@type": "cr:Field",
        "@id": f"images/{column}",
        "name": column,
        "description": meaning,
        "dataType": kind,
        "source": {"fileObject": {"@id": "images.csv"}, "extract": {"column": column}},
    }
