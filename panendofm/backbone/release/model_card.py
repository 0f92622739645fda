"""The model card of a release: what is known from the run's files, and plainly what is not."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any

import yaml

from panendofm.backbone.release.formats import Export
from panendofm.backbone.release.origin import certificate_summary, data_section, read_run_config, start_section
from panendofm.backbone.release.snippets import snippets
from panendofm.records.documents import as_document
from panendofm.records.evaluation import KnnDocument, read_evaluations, read_selection
from panendofm.records.release import ReleaseInfo
from panendofm.records.run import RunFolder, step_name
from panendofm.runtime.names import without_folders

UNKNOWN = "Not known: {} was not found beside the weights."
# Sections of a run's config.yaml that say how the weights came about.
_TRAINING_SECTIONS = ("init", "model", "batch", "schedule", "optimizer", "objective", "augment")
_TITLES = {
    "panendofm": "This project",
    "hub": "torch.hub (official names)",
    "timm": "timm",
    "transformers": "transformers",
    "onnx": "onnxruntime",
}


def model_card(release: ReleaseInfo, export: Export, run: RunFolder | None) -> str:
    """README.md of a release folder."""
    config = read_run_config(run)
    parts = [
        _front_matter(release),
        f"# {release.name}",
        _summary(release),
        "**Not for diagnosis.** Research use only: this is no medical device, and no clinical value has been shown.",
        "## Model\n\n" + _model_table(release, export),
        "## Loading\n\n" + _loading(release, export),
        "## Starting weights\n\n" + start_section(release.source, config),
        "## Training data\n\n" + data_section(release.source, config),
        "## Leakage certificate\n\n" + _certificate(release),
        "## Training\n\n" + _training(config),
        "## kNN curve\n\n" + _knn_curve(run),
        "## Limits\n\n" + _limits(release, export, run),
        "## Checks of these files\n\n" + _checks(release, export),
        "## Licence\n\n" + _licence(release),
    ]
    return "\n\n".join(parts) + "\n"


def _summary(release: ReleaseInfo) -> str:
    use = "It turns an image into a feature vector; it does not classify, detect or diagnose."
    if release.source.step:  # from a training run of ours, and not from its first checkpoint, at step 0
        return f"A vision transformer for gastrointestinal endoscopy, trained without labels by DINOv2's method. {use}"
    return f"A vision transformer of DINOv2's architecture. How it was trained, if at all, is not known. {use}"


def _front_matter(release: ReleaseInfo) -> str:
    values = {
        "license": release.licence or "unknown",
        "pipeline_tag": "image-feature-extraction",
        "tags": ["endoscopy", "dinov2", "self-supervised", "feature-extraction"],
    }
    return f"---\n{yaml.safe_dump(values, sort_keys=False)}---"


def _model_table(release: ReleaseInfo, export: Export) -> str:
    config, preprocessing, source = export.config, export.preprocessing, release.source
    parameters = sum(p.numel() for p in export.model.parameters())
    rows = {
        "architecture": release.architecture,
        "parameters": f"{parameters:,}",
        "feature width": str(config.width),
        "blocks, heads, patch": f"{config.depth}, {config.heads}, {config.patch_px} px",
        "feed-forward": config.ffn,
        "registers": str(config.registers),
        "position grid": f"{config.grid}×{config.grid} ({config.image_px} px)",
        "values": release.dtype,
        "pre-processing": f"resize {preprocessing.resize_px} ({preprocessing.interpolation}), centre crop "
        f"{preprocessing.crop_px}, mean {list(preprocessing.mean)}, std {list(preprocessing.std)}",
        "made from": source.kind + (f", step {source.step:,}" if source.step is not None else ""),
        "images seen": f"{source.images_seen:,}" if source.images_seen is not None else "not known",
        "weights checksum": f"`{release.weights_sha256}`",
    }
    return "| | |\n|---|---|\n" + "\n".join(f"| {name} | {value} |" for name, value in rows.items())


def _loading(release: ReleaseInfo, export: Export) -> str:
    code = snippets(export.config, export.preprocessing)
    parts = ["Run these in the folder of this file, with an image `image.jpg`. `features` is the cls token, [1, D]."]
    for kind in ("panendofm", *release.weights):
        if kind == "panendofm" and not {"hub", "timm", "transformers"} & release.weights.keys():
            continue
        if kind in code:
            parts.append(f"### {_TITLES[kind]}\n\n```python\n{code[kind]}\n```")
        else:
            parts.append(
                f"### {_TITLES[kind]}\n\nThe official repository has no model of these sizes; "
                f"`{release.weights[kind]}` holds the tensors under its names."
            )
    return "\n\n".join(parts)


def _certificate(release: ReleaseInfo) -> str:
    if release.certificate is None:
        return (
            "None. Whether images of an evaluation set were in the training data is not known: don't compare figures "
            "on public sets with those of other models without checking that."
        )
    return (
        f"{certificate_summary(release.certificate)} What was checked and how:\n\n```json\n"
        + json.dumps(_without_paths(as_document(release.certificate)), indent=2, ensure_ascii=False, sort_keys=True)
        + "\n```"
    )


def _training(config: dict[str, Any] | None) -> str:
    if not config:
        return UNKNOWN.format("the run's configuration")
    sections = {name: config[name] for name in _TRAINING_SECTIONS if name in config}
    if not sections:
        return "Not known: the run's configuration has none of the sections that describe a training."
    return "```yaml\n" + yaml.safe_dump(_with_file_names(sections), sort_keys=False) + "```"


def _knn_curve(run: RunFolder | None) -> str:
    """Rows of the run's evaluations, in the order of training."""
    documents = read_evaluations(run) if run is not None else []
    if not documents:
        return UNKNOWN.format("a kNN evaluation of the run")
    columns = [(metric, k) for metric, k in (("top1", "20"), ("top5", "100")) if k in documents[0].k]
    columns = columns or [("top1", next(iter(documents[0].k)))]
    head = ["step", *(f"{metric.replace('top', 'top-')}, k = {k}" for metric, k in columns), "RankMe"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for document in documents:
        cells = [str(document.step), *(_percent(document, metric, k) for metric, k in columns)]
        lines.append("| " + " | ".join([*cells, f"{document.rankme:.1f}"]) + " |")
    last = documents[-1]
    on = f"On {PurePath(last.data.path).name}: {last.data.queries} queries, {last.data.gallery} gallery images."
    if any(at_k.intervals for at_k in last.k.values()):
        on += f" In brackets: {100 * last.interval_confidence:.0f}% intervals."
    return "\n".join([*lines, "", f"{on} {last.leakage.note}"]).rstrip()


def _percent(document: KnnDocument, metric: str, k: str) -> str:
    if k not in document.k:
        return "–"
    figures, interval = document.k[k], document.k[k].interval(metric)
    between = f" ({100 * interval[0]:.1f}–{100 * interval[1]:.1f})" if interval is not None else ""
    return f"{100 * getattr(figures, metric):.2f}%{between}"


def _limits(release: ReleaseInfo, export: Export, run: RunFolder | None) -> str:
    """What these files do not show, as far as the run's files tell."""
    lines = [_against_start(release, run)]
    documents = read_evaluations(run) if run is not None else []
    if documents:
        data = documents[-1].data
        lines.append(
            f"The checkpoint was chosen by kNN on the {data.queries} queries of {PurePath(data.path).name}, so its "
            "figure there is a little too good; differences within the interval mean nothing."
        )
    crop_px = export.preprocessing.crop_px
    lines.append(
        f"Measured at {crop_px} px, on images of the sets named above alone. How it does on other hospitals, devices "
        "and patients is not known; judge it on your own labeled images first."
    )
    return "\n".join(f"- {line}" for line in lines)


def _against_start(release: ReleaseInfo, run: RunFolder | None) -> str:
    selection = read_selection(run) if run is not None else None
    against = selection.against_start.get(step_name(release.source.step or 0)) if selection is not None else None
    if selection is None or against is None:
        return "Whether it is better than the weights that it began with was not measured."
    difference = f"{100 * against.difference:+.1f} points ({100 * against.low:+.1f} to {100 * against.high:+.1f})"
    return f"Against the weights of step 0, by {selection.metric}: {difference}, {against.verdict}."


def _checks(release: ReleaseInfo, export: Export) -> str:
    versions = ", ".join(f"{package} {version}" for package, version in release.checked_with.items())
    lines = [
        f"Each format was loaded back with its package ({versions}) and compared with the backbone on photographs: "
        "largest difference of all tokens over the largest value.",
        "| format | image | difference |\n|---|---|---|\n"
        + "\n".join(
            f"| {kind} | {place.removeprefix('at_').removesuffix('px')} px | {difference:.1e} |"
            for kind, places in release.checked.items()
            for place, difference in places.items()
        ),
    ]
    if not export.config.registers and export.config.image_px != export.preprocessing.crop_px:
        lines.append(
            "Without registers, timm and transformers interpolate positions otherwise than DINOv2 does when an image "
            f"is not {export.config.image_px} px: that is the difference above at another size. An export with "
            f"`image_px={export.preprocessing.crop_px}` stores the positions for that size and agrees there."
        )
    lines.append("`sha256sum --check SHA256SUMS` checks the files.")
    return "\n\n".join(lines)


def _licence(release: ReleaseInfo) -> str:
    if release.licence:
        return (
            f"{release.licence}. The training corpora and the weights that it started from have licences of their own, "
            "which may limit the use."
        )
    return (
        "Not stated by whoever made this release. The training corpora and the weights that it started from have "
        "licences of their own; ask before you use it for more than research."
    )


def _without_paths(value: Any) -> Any:
    """The same values, with only the last part of paths: a release must not tell where its maker keeps files."""
    if isinstance(value, dict):
        return {key: _without_paths(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_paths(item) for item in value]
    if isinstance(value, str):
        return PurePath(value).name if value.startswith(("/", "~", "./", "../")) else without_folders(value)
    return value


def _with_file_names(value: Any) -> Any:
    """Settings, with only the last part of paths, relative ones too: no setting but a path has a slash in it."""
    if isinstance(value, dict):
        return {key: _with_file_names(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_file_names(item) for item in value]
    return PurePath(value).name if isinstance(value, str) and "/" in value else value
