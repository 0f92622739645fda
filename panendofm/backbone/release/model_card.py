"""The model card of a release: what is known from the run's files, and plainly what is not."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any

import yaml

from panendofm.backbone.config import ViTConfig, architecture_name
from panendofm.backbone.release.formats import Export
from panendofm.backbone.release.origin import certificate_summary, one_line, read_run_config
from panendofm.records.documents import as_document
from panendofm.records.evaluation import KnnDocument, read_evaluations, read_selection
from panendofm.records.release import ReleaseInfo
from panendofm.records.run import RunFolder, step_name
from panendofm.reports import Table, markdown, render_text
from panendofm.runtime.names import without_folders

# Sections of a run's config.yaml that say how the weights came about.
_TRAINING_SECTIONS = ("init", "model", "batch", "schedule", "optimizer", "objective", "augment")


def model_card(release: ReleaseInfo, export: Export, run: RunFolder | None) -> str:
    """README.md of a release folder."""
    config = read_run_config(run) or {}
    versions = [f"{package} {version}" for package, version in release.checked_with.items()]
    return render_text(
        "panendofm.backbone",
        "model_card.md",
        front_matter=_front_matter(release),
        release=release,
        source=release.source,
        vit=export.config,
        input=export.preprocessing,
        hub_name=hub_name(export.config),
        model=_model_table(release, export),
        certificate_summary=certificate_summary(release.certificate),
        certificate=_json(_without_paths(as_document(release.certificate))),
        configured=bool(config),
        training=_training(config),
        against_start=_against_start(release, run),
        versions=", ".join(versions),
        checks=_checks(release),
        **_start(config),
        **_data(release, config),
        **_knn(run),
    )


def hub_name(config: ViTConfig) -> str | None:
    """Name of the torch.hub model of these sizes; None when the official repository has none."""
    letters = {"small": "s", "base": "b", "large": "l", "giant": "g"}
    known = {f"vit_{size}_patch14{reg}": (s, reg) for size, s in letters.items() for reg in ("", "_reg4")}
    size = known.get(architecture_name(config))
    return None if size is None else f"dinov2_vit{size[0]}14{'_reg' if size[1] else ''}"


def _json(values: Any) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False, sort_keys=True)


def _front_matter(release: ReleaseInfo) -> str:
    values = {
        "license": release.license or "unknown",
        "pipeline_tag": "image-feature-extraction",
        "tags": ["endoscopy", "dinov2", "self-supervised", "feature-extraction"],
    }
    return yaml.safe_dump(values, sort_keys=False)


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
        "pre-processing": f"resize {preprocessing.resize_px} ({preprocessing.interpolation}), center crop "
        f"{preprocessing.crop_px}, mean {list(preprocessing.mean)}, std {list(preprocessing.std)}",
        "made from": source.kind + (f", step {source.step:,}" if source.step is not None else ""),
        "images seen": f"{source.images_seen:,}" if source.images_seen is not None else "not known",
        "weights checksum": f"`{release.weights_sha256}`",
    }
    return markdown(Table(["", ""], list(rows.items())))


def _start(config: dict[str, Any]) -> dict[str, object]:
    """The weights that training began with."""
    init = section(config, "init")
    began_with = PurePath(str(init.get("weights") or "")).name
    return {"began_with": began_with, "began_at_random": "weights" in init and not began_with}


def _data(release: ReleaseInfo, config: dict[str, Any]) -> dict[str, object]:
    """Which corpora, under which licenses, and how much of each."""
    corpora = release.source.corpora or []
    weights = section(config, "data").get("weights")
    head = ["corpus", "license", "frames"]
    rows = [[one_line(c.name), one_line(c.license or "not stated"), f"{c.frames:,}"] for c in corpora]
    if isinstance(weights, dict):  # a corpus that they do not name was not seen at all
        head.append("share of the images seen")
        total = sum(weights.values())
        rows = [[*row, f"{weights.get(c.name, 0) / total:.0%}"] for row, c in zip(rows, corpora, strict=True)]
    return {
        "frames": f"{sum(corpus.frames for corpus in corpora):,}",
        "drawn": ", drawn by weights of their own" if isinstance(weights, str) else "",
        "corpora": markdown(Table(head, rows)),
    }


def section(config: dict[str, Any], name: str) -> dict[str, Any]:
    found = config.get(name)
    return found if isinstance(found, dict) else {}


def _training(config: dict[str, Any]) -> str:
    sections = {name: config[name] for name in _TRAINING_SECTIONS if name in config}
    return yaml.safe_dump(_with_file_names(sections), sort_keys=False) if sections else ""


def _knn(run: RunFolder | None) -> dict[str, object]:
    """The run's evaluations, in the order of training."""
    documents = read_evaluations(run) if run is not None else []
    if not documents:
        return {"knn": ""}
    columns = [(metric, k) for metric, k in (("top1", "20"), ("top5", "100")) if k in documents[0].k]
    columns = columns or [("top1", next(iter(documents[0].k)))]
    head = ["step", *(f"{metric.replace('top', 'top-')}, k = {k}" for metric, k in columns), "RankMe"]
    rows = [
        [document.step, *(_percent(document, metric, k) for metric, k in columns), f"{document.rankme:.1f}"]
        for document in documents
    ]
    last = documents[-1]
    with_intervals = any(at_k.intervals for at_k in last.k.values())
    return {
        "knn": markdown(Table(head, rows)),
        "data": last.data,
        "judged_on": PurePath(last.data.path).name,
        "intervals": f" In brackets: {100 * last.interval_confidence:.0f}% intervals." if with_intervals else "",
        "leakage_note": last.leakage.note,
    }


def _percent(document: KnnDocument, metric: str, k: str) -> str:
    if k not in document.k:
        return "–"
    figures, interval = document.k[k], document.k[k].interval(metric)
    between = f" ({100 * interval[0]:.1f}–{100 * interval[1]:.1f})" if interval is not None else ""
    return f"{100 * getattr(figures, metric):.2f}%{between}"


def _against_start(release: ReleaseInfo, run: RunFolder | None) -> str:
    selection = read_selection(run) if run is not None else None
    against = selection.against_start.get(step_name(release.source.step or 0)) if selection is not None else None
    if selection is None or against is None:
        return "Whether it is better than the weights that it began with was not measured."
    difference = f"{100 * against.difference:+.1f} points ({100 * against.low:+.1f} to {100 * against.high:+.1f})"
    return f"Against the weights of step 0, by {selection.metric}: {difference}, {against.verdict}."


def _checks(release: ReleaseInfo) -> str:
    rows = [
        [kind, f"{place.removeprefix('at_').removesuffix('px')} px", f"{difference:.1e}"]
        for kind, places in release.checked.items()
        for place, difference in places.items()
    ]
    return markdown(Table(["format", "image", "difference"], rows))


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
