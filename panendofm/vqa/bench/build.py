"""An atlas → a bench. Same atlas, settings and seed: the same bytes."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas import load_mappings
from panendofm.backbone.networks import Network, find_network
from panendofm.imaging.images import open_image
from panendofm.runtime.console import say, table, track
from panendofm.runtime.files import atomic_directory
from panendofm.vqa.bench.config import BuildConfig, PictureConfig
from panendofm.vqa.bench.images.draw import draw_marks, encode_jpeg, encode_png
from panendofm.vqa.bench.images.prepare import Prepared, prepare
from panendofm.vqa.bench.images.sources import Picture, read_sources, with_one_annotator
from panendofm.vqa.bench.items import IMAGES, Draft, Item, write_bench
from panendofm.vqa.bench.lesions import build_lesion_bench
from panendofm.vqa.bench.questions.candidates import REGION_TASK, Candidate, all_candidates
from panendofm.vqa.bench.questions.options import Pools
from panendofm.vqa.bench.questions.select import select
from panendofm.vqa.bench.questions.tasks import REGION
from panendofm.vqa.bench.questions.templates import load_templates
from panendofm.vqa.bench.questions.vocabulary import load_vocabulary
from panendofm.vqa.bench.questions.wording import Planner
from panendofm.vqa.bench.review import apply_review, read_review
from panendofm.vqa.features import features_of

# Neither changes a question.
_NOT_STORED = (
    "data", "out", "regions", "annotations", "weights", "device", "templates", "review", "references", "lesions",
)  # fmt: skip


def build_bench(config: BuildConfig) -> None:
    """Write the bench that the settings describe."""
    if config.profile == "gi_bench":
        build_lesion_bench(config)
        return
    out = Path(config.out)
    vocabulary, templates = load_vocabulary(), load_templates(config.templates)
    sources = read_sources(
        Path(config.data),
        Path(config.regions) if config.regions else None,
        Path(config.annotations) if config.annotations else None,
        config.all_regions_listed,
    )
    left_out = sources.left_out
    marked = [with_one_annotator(picture) for picture in sources.pictures]
    wanted = config.subtasks()
    keys = {REGION_TASK if code in REGION else code for code in wanted}
    candidates = [c for c in all_candidates(marked, vocabulary) if c.subtask in keys]
    facts = prepare_all({c.picture.sha256: c.picture for c in candidates}, config.pictures, left_out)
    candidates = [c for c in candidates if c.picture.sha256 in facts]
    network = find_network(config.weights)
    vectors = _features(candidates, network, config.device)
    chosen = select(
        _with_two_answers(candidates, left_out),
        lambda members: np.stack([vectors[m.picture.sha256] for m in members]),
        lambda subtask: config.caps.get(subtask, config.cap),
        config.questions_per_subtask,
        config.seed,
    )
    planner = Planner(
        Pools(chosen.chosen), vocabulary, templates, config.distractors, config.pictures.min_region_px,
        config.state_size, config.seed, left_out,
    )  # fmt: skip
    planned = [q for c in chosen.chosen for q in planner.plan(c, facts[c.picture.sha256], wanted)]
    items = planner.deal(planned, facts)
    decisions = read_review(Path(config.review)) if config.review else []
    items, review = apply_review(_unique(items, left_out), decisions)
    _report(items, left_out)
    with atomic_directory(out) as folder:
        pictures = {p.sha256: p for p in sources.pictures}
        items = render_all(items, pictures, facts, folder)
        notes = {
            "seed": config.seed,
            "config": {k: v for k, v in asdict(config).items() if k not in _NOT_STORED},
            "inputs": _input_checksums(config),
            "weights": {"name": network.name, "sha256": network.weights_sha256},
            "selection": chosen.report,
            "left_out": dict(sorted(left_out.items())),
            "licences": licences_of(items),
            **review,
        }
        write_bench(folder, Draft(config.name, [replace(item, benchmark=config.name) for item in items], notes))
    used = len({item.sha256 for item in items})
    say(f"{len(items)} questions about {used} pictures → {out}; reviewed: {review['reviewed']}")


def prepare_all(pictures: dict[str, Picture], config: PictureConfig, left_out: Counter[str]) -> dict[str, Prepared]:
    """How each picture is sent; those that are unfit are counted."""
    order = sorted(pictures)
    facts = {}
    with ThreadPoolExecutor(os.cpu_count() or 1, "prepare") as pool:
        results = pool.map(lambda sha256: prepare(pictures[sha256].path, config), order)
        for sha256, result in zip(order, track(results, "pictures", len(order), "images"), strict=True):
            if isinstance(result, Prepared):
                facts[sha256] = result
            else:
                left_out[result] += 1
    return facts


def _features(candidates: Sequence[Candidate], network: Network, device: str | None) -> dict[str, NDArray[np.float32]]:
    paths = {c.picture.sha256: c.picture.path for c in candidates}
    order = sorted(paths)
    if not order:
        return {}
    return dict(zip(order, features_of(network, [paths[sha256] for sha256 in order], device), strict=True))


def _with_two_answers(candidates: Sequence[Candidate], left_out: Counter[str]) -> list[Candidate]:
    """A sub-task with one possible answer asks nothing; a region can still be looked for."""
    answers: dict[str, set[str]] = defaultdict(set)
    for candidate in candidates:
        answers[candidate.subtask].add(candidate.entity)
    for subtask, entities in answers.items():
        if len(entities) < 2 and subtask != REGION_TASK:
            left_out[f"{subtask}: only one answer occurs"] += sum(c.subtask == subtask for c in candidates)
    return [c for c in candidates if len(answers[c.subtask]) > 1 or c.subtask == REGION_TASK]


def _unique(items: Sequence[Item], left_out: Counter[str]) -> list[Item]:
    """Two regions of one box would give one question twice."""
    first: dict[str, Item] = {}
    for item in items:
        first.setdefault(item.id, item)
    if len(first) < len(items):
        left_out["question was there already"] += len(items) - len(first)
    return list(first.values())


def render_all(
    items: Sequence[Item], pictures: dict[str, Picture], facts: dict[str, Prepared], folder: Path
) -> list[Item]:
    """Draw and write the pictures; marked ones without loss. Equal pictures are one file."""
    by_picture: dict[str, list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        by_picture[item.sha256].append(number)
    result = list(items)
    (folder / IMAGES).mkdir()
    for sha256 in track(sorted(by_picture), "drawing", len(by_picture), "pictures"):
        sent = facts[sha256].render(np.asarray(open_image(pictures[sha256].path)))
        for number in by_picture[sha256]:
            item = items[number]
            if any(region.color for region in item.regions):
                marked = draw_marks(sent, item.regions, outline=item.subtask == "RR_contour")
                content, kind = encode_png(marked), "png"
            else:
                content, kind = encode_jpeg(sent), "jpg"
            name = f"{IMAGES}/{hashlib.sha256(content).hexdigest()[:16]}.{kind}"
            if not (folder / name).exists():
                (folder / name).write_bytes(content)  # the folder as a whole is made durable at its end
            result[number] = replace(item, image=name)
    return result


def licences_of(items: Sequence[Item]) -> dict[str, str]:
    mappings = load_mappings()
    datasets = {dataset for item in items for dataset in item.dataset.split("+")}
    return {name: mappings[name].licence if name in mappings else "unknown" for name in sorted(datasets)}


def _input_checksums(config: BuildConfig) -> dict[str, str]:
    """Checksums of what was read beside the atlas, whose file holds paths and differs from place to place."""
    found = {}
    for key in ("regions", "annotations", "templates", "review"):
        path = Path(getattr(config, key))
        if getattr(config, key) and path.is_file():
            found[key] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _report(items: Sequence[Item], left_out: Counter[str]) -> None:
    rows = Counter((item.task, item.subtask, item.scene) for item in items)
    table("questions", ["task", "sub-task", "scene", "n"], [[*key, str(n)] for key, n in sorted(rows.items())])
    for reason, count in sorted(left_out.items()):
        say(f"left out: {count} × {reason}")
