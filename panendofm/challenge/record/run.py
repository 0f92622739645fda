"""The verb `record`: what a regulator wants to read, filled from results, the leakage certificate and plan.yaml.

Nothing is invented: a field that nobody filled is printed as missing.
"""

from __future__ import annotations

import platform
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from panendofm.challenge.check_data import read_data_check
from panendofm.challenge.config import RecordConfig
from panendofm.challenge.merge import read_gold
from panendofm.challenge.profile import BoxProfile, find_profile
from panendofm.challenge.record.document import Independence, Record, RecordedResult
from panendofm.challenge.record.plan import PLAN, read_plan
from panendofm.challenge.record.stard_ai import Known, stard_ai
from panendofm.challenge.score.page_subgroups import subgroup_table, subset_title
from panendofm.challenge.score.results import BoxScores, LabelScores, MaskScores, Results, Scores, read_results
from panendofm.challenge.score.subsets import Case
from panendofm.challenge.shown import plain_text, shown
from panendofm.records.documents import write_document
from panendofm.records.shards import ShardFolder
from panendofm.reports import Table, markdown, render_text
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, sha256_of, write_bytes, write_text

_IMAGES = "images"
_PACKAGES = ("numpy", "scipy", "pillow", "opencv-python-headless")


def record(folders: list[Path], config: RecordConfig) -> Record:
    out = Path(config.out)
    known = Known(
        plan=read_plan(config.plan),
        independence=_independence(config.shards),
        data_check=_data_check(config.data_check),
        gold_standard=read_gold(Path(config.gold)) if config.gold is not None else None,
        results=[_recorded(number, folder, out) for number, folder in enumerate(folders, 1)],
        software={"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}},
    )
    evidence = {Path(path).name: sha256_of(path) for path in config.evidence}
    document = Record(**vars(known), evidence=evidence, stard_ai=stard_ai(known))
    make_directory(out)
    write_document(out / "record.json", document)
    write_text(out / "record.md", _markdown(document))
    missing = sum(value is None for value in document.plan.values())
    open_items = sum(item.content is None for item in document.stard_ai)
    say(
        f"record: {out / 'record.md'}, record.json; {missing} of {len(PLAN)} fields of the plan are missing, "
        f"{open_items} of {len(document.stard_ai)} lines of STARD-AI"
    )
    return document


def _independence(shards: str | None) -> Independence:
    if shards is None:
        return Independence(shards_named=False)
    manifest = ShardFolder(Path(shards)).read_manifest()
    if manifest.leakage is None:
        return Independence(shards_named=True)
    return Independence(True, manifest.leakage, manifest.frames)


def _data_check(path: str | None) -> dict[str, int] | None:
    if path is None:
        return None
    report = read_data_check(Path(path))
    return {"files": report.files, "errors": report.errors, "remarks": report.remarks}


def _by_part(scores: Scores) -> dict[str, str]:
    found: dict[str, object] = {}
    if isinstance(scores, LabelScores):
        recalls = {name: row.rates["recall"] for name, row in scores.per_class.items()}
        known = {name: recall for name, recall in recalls.items() if recall is not None}
        ordered = sorted(known, key=lambda name: known[name])
        found["worst classes by recall"] = {name: known[name] for name in ordered[:3]}
        found["best classes by recall"] = {name: known[name] for name in ordered[-3:]}
    elif isinstance(scores, BoxScores):
        coco = scores.profiles[find_profile(BoxProfile, None).name]
        found["average precision 50"] = {name: by.get("0.5") for name, by in coco.ap.items()}
    elif isinstance(scores, MaskScores):
        found["dice by size"] = {name: row.by_size for name, row in scores.per_class.items()}
    found["centers"] = scores.centers
    if isinstance(scores, BoxScores):
        found |= {"by size": scores.by_size, "patients": scores.patients}
    return {name: plain_text(value) for name, value in found.items() if value}


def _recorded(number: int, folder: Path, out: Path) -> RecordedResult:
    """With copies of its images, so that the record needs no other folder."""
    results = read_results(folder)
    scores = results.scores
    own_folder = folder if folder.is_dir() else folder.parent
    images: dict[str, str] = {}

    def copied(case: Case) -> Case:
        if case.image is None:
            return case
        if case.image not in images:
            source = own_folder / case.image
            if not source.is_file():
                raise UserError(f"cannot read {source}, an image of {folder}; score again with images=….")
            images[case.image] = f"{_IMAGES}/{number}/{source.name}"
            target = out / images[case.image]
            make_directory(target.parent)
            write_bytes(target, source.read_bytes())
        return replace(case, image=images[case.image])

    well, badly = (
        [replace(subset, cases=[copied(case) for case in subset.cases]) for subset in side]
        for side in (scores.does_well, scores.does_badly)
    )
    results = replace(results, scores=replace(scores, does_well=well, does_badly=badly))
    return RecordedResult(results, _by_part(scores), sorted(images.values()))


def _metrics(results: Results) -> str:
    """Of the profile; for masks also the means of each class."""
    metrics = dict(results.metrics)
    if isinstance(results.scores, MaskScores):
        for name, row in results.scores.per_class.items():
            metrics |= {f"{name}, {metric}": value for metric, value in row.mean_over_images.items()}
    rows = [[name, shown(value)] for name, value in metrics.items()]
    return markdown(Table(["metric", "value (95% interval)"], rows))


def _markdown(document: Record) -> str:
    rows = [[title, document.plan[name] or "**missing**", asked] for name, (title, asked) in PLAN.items()]
    return render_text(
        "panendofm.challenge",
        "record.md",
        record=document,
        plan=markdown(Table(["field", "content", "asked for by"], rows)),
        stard_ai=markdown(Table(["item", "topic", "content"], _stard_ai_rows(document))),
        metrics=_metrics,
        plain_text=plain_text,
        subset_title=subset_title,
        subgroups=lambda scores: markdown(subgroup_table(scores)),
    )


def _stard_ai_rows(document: Record) -> list[list[str]]:
    return [[item.number, item.topic, item.content or "**missing**"] for item in document.stard_ai]
