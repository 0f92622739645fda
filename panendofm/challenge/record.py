"""The verb `record`: what a regulator wants to read, filled from results, the leakage certificate and plan.yaml.

Nothing is invented: a field that nobody filled is printed as missing.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from panendofm.challenge.files.text_table import nearest, read_utf8
from panendofm.challenge.score.format_metric import shown
from panendofm.challenge.score.results import load_results
from panendofm.records.shards import ShardFolder
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, read_json, sha256_of, write_json, write_text
from panendofm.runtime.yaml_files import parse_yaml

FORMAT = 1
MISSING = "missing"
# Field of plan.yaml: what it is, and which lines of the checklists ask for it.
PLAN = {
    "title": ("What is evaluated", "TRIPOD+AI 1; CLAIM title"),
    "intended_use": ("Intended use and users", "TRIPOD+AI 3b; CLAIM 3"),
    "evaluator": ("Who evaluates, and in which role", "TRIPOD+AI 18"),
    "developer": ("Who developed the system", "TRIPOD+AI 18"),
    "period": ("When the evaluation took place", "TRIPOD+AI 5b"),
    "test_set": ("Test set, centers and inclusion", "TRIPOD+AI 5–6; CLAIM 7–9"),
    "consent": ("Consent of patients", "TRIPOD+AI 18b"),
    "ethics_review": ("Ethics review", "TRIPOD+AI 18b; CLAIM 5"),
    "anonymization": ("Where and how data were anonymized", "CLAIM 12"),
    "retention": ("How long data are kept", "–"),
    "reference_standard": ("How the gold standard was made", "TRIPOD+AI 8; CLAIM 14–18"),
    "certifications": ("Claimed certifications", "–"),
    "limitations": ("Known limitations", "TRIPOD+AI 26; CLAIM 38"),
    "funding": ("Funding and interests", "TRIPOD+AI 18a; CLAIM 42"),
}
PACKAGES = ("numpy", "scipy", "pillow", "opencv-python-headless")


def record(
    folders: Sequence[Path],
    out: Path,
    plan: Path | None = None,
    certificate: Path | None = None,
    data_check: Path | None = None,
    gold: Path | None = None,
    evidence: Sequence[Path] = (),
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "format": FORMAT,
        "plan": _plan(plan),
        "independence": _independence(certificate),
        "data_check": _data_check(data_check),
        "gold_standard": _summary_of(gold, ("log_sha256", "acts", "gold", "agreement")),
        "results": [_result(folder) for folder in folders],
        "evidence": [{"file": path.name, "sha256": sha256_of(path)} for path in evidence],
        "software": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
    }
    make_directory(out)
    write_json(out / "record.json", document)
    write_text(out / "record.md", _markdown(document))
    missing = [name for name, value in document["plan"].items() if value == MISSING]
    say(f"record: {out / 'record.md'}, record.json; {len(missing)} of {len(PLAN)} fields of the plan are missing")
    return document


def _plan(path: Path | None) -> dict[str, str]:
    found: dict[str, Any] = {}
    if path is not None:
        found = parse_yaml(read_utf8(path), str(path)) or {}
        if not isinstance(found, dict):
            raise UserError(f"{path}: a plan is a mapping of fields to text; its fields: {', '.join(PLAN)}.")
        for name in found:
            if name not in PLAN:
                raise UserError(f"{path}: there is no field '{name}'; {nearest(str(name), PLAN)}")
    return {name: str(found[name]).strip() if found.get(name) else MISSING for name in PLAN}


def _independence(path: Path | None) -> dict[str, Any]:
    """From the leakage certificate of the shards that the network was trained on."""
    if path is None:
        return {"certificate": MISSING}
    folder = ShardFolder(path)
    manifest = folder.read_manifest()
    if manifest.leakage is None:
        return {"certificate": "the shard set has none: nothing was kept out of training"}
    return {"certificate": asdict(manifest.leakage), "training_frames": manifest.frames}


def _data_check(path: Path | None) -> dict[str, Any] | str:
    if path is None:
        return MISSING
    found = read_json(path)
    if not isinstance(found, dict) or "findings" not in found:
        raise UserError(f"{path}: this is no report of 'challenge check-data'; run that first.")
    errors = sum(f["level"] == "error" for f in found["findings"])
    return {"files": found["files"], "errors": errors, "remarks": len(found["findings"]) - errors}


def _summary_of(path: Path | None, names: Sequence[str]) -> dict[str, Any] | str:
    if path is None:
        return MISSING
    found = read_json(path)
    if not isinstance(found, dict) or any(name not in found for name in names):
        raise UserError(f"{path}: this is no gold.json of 'challenge merge'; run that first.")
    return {name: found[name] for name in names}


def _result(folder: Path) -> dict[str, Any]:
    found = load_results(folder)
    names = ("team", "run", "task", "type", "profile", "n", "classes", "groups", "bootstrap", "provenance", "warnings")
    result = {name: found[name] for name in names}
    result["figures"] = _figures(found)
    result["does_well_and_badly"] = _subgroups(found)
    for name in ("speed", "measured", "without_listed"):
        if found.get(name):
            result[name] = found[name]
    return result


def _figures(found: dict[str, Any]) -> dict[str, Any]:
    if found["type"] == "segmentation":
        return {
            f"{name}, {k}": value
            for name, row in found["per_class"].items()
            for k, value in row["mean_over_images"].items()
        }
    figures: dict[str, Any] = found["profiles"][found["profile"]]["figures"]
    return figures


def _subgroups(found: dict[str, Any]) -> dict[str, Any]:
    """Where it does well and where badly: classes, centers, sizes."""
    result: dict[str, Any] = {}
    if found["type"] == "classification":
        known = {n: r["recall"] for n, r in found["per_class"].items() if r["recall"] is not None}
        ordered = sorted(known, key=lambda name: known[name])
        result["worst_classes_by_recall"] = {n: known[n] for n in ordered[:3]}
        result["best_classes_by_recall"] = {n: known[n] for n in ordered[-3:]}
    elif found["type"] == "detection":
        result["average_precision_50"] = {n: v.get("0.5") for n, v in found["profiles"]["coco"]["ap"].items()}
    else:
        result["dice_by_size"] = {n: row["by_size"] for n, row in found["per_class"].items()}
    for name in ("centers", "by_size", "patients"):
        if found.get(name):
            result[name] = found[name]
    return result


def _markdown(document: dict[str, Any]) -> str:
    lines = ["# Record of an evaluation", "", "Research use, not for diagnosis.", "", "## Who, what, when", ""]
    lines += ["| field | content | asked for by |", "|---|---|---|"]
    for name, (title, asked) in PLAN.items():
        value = document["plan"][name]
        lines.append(f"| {title} | {'**missing**' if value == MISSING else _cell(value)} | {asked} |")
    lines += ["", "## Independence of test and training data", "", *_certificate(document["independence"])]
    lines += ["", "## Test data and gold standard", ""]
    for title, name in (("Checks of the files", "data_check"), ("Gold standard", "gold_standard")):
        value = document[name]
        lines.append(f"- {title}: {'**missing**' if value == MISSING else _inline(value)}")
    for result in document["results"]:
        lines += ["", *_result_lines(result)]
    lines += ["", "## Evidence", ""]
    lines += [f"- {e['file']}, SHA-256 {e['sha256']}" for e in document["evidence"]] or ["**missing**"]
    lines += ["", "## Software", "", *(f"- {name} {number}" for name, number in document["software"].items()), ""]
    return "\n".join(lines)


def _cell(value: str) -> str:
    return value.replace("|", "\\|").replace("\n", " ")


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{k.replace('_', ' ')} {_inline(v)}" for k, v in value.items())
    return f"{value:.4f}" if isinstance(value, float) else "–" if value is None else str(value)


def _certificate(independence: dict[str, Any]) -> list[str]:
    found = independence["certificate"]
    if found == MISSING:
        return ["**missing**: name the shard set that the network was trained on with --shards."]
    if isinstance(found, str):
        return [found]
    sets = ", ".join(str(s["name"]) for s in found["guarded_sets"])
    return [
        f"- kept out of training: {sets or 'nothing'}",
        f"- frames checked: {found['frames_checked']:,}, dropped as copies: {found['frames_dropped']:,}",
        f"- method: {_inline(found['method'])}",
        f"- known overlaps of corpora: {len(found['known_overlaps'])}",
    ]


def _result_lines(result: dict[str, Any]) -> list[str]:
    groups, source = result["groups"], result["provenance"]
    lines = [
        f"## Results: {result['team']}, run {result['run']}",
        "",
        f"{result['type']}, profile {result['profile']}, {result['n']} images or frames, {len(result['classes'])} "
        f"classes; 95% intervals by {result['bootstrap']['samples']} draws over {groups['count']} {groups['kind']}s.",
        "",
        "| figure | value (95% interval) |",
        "|---|---|",
        *(f"| {name} | {shown(value)} |" for name, value in result["figures"].items()),
        "",
        f"Truth {source['truth']} ({source['truth_sha256']}), submission {source['submission']} "
        f"({source['submission_sha256']}).",
        "",
        "Where it does well and badly:",
        "",
    ]
    lines += [f"- {name.replace('_', ' ')}: {_inline(value)}" for name, value in result["does_well_and_badly"].items()]
    lines += [f"- warning: {text}" for text in result["warnings"]]
    return lines
