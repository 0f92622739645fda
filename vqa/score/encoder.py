"""A frozen encoder as a contestant: it answers the same questions by linear heads, or by nearest neighbours.

Heads are trained on pictures and regions of the atlas whose groups are not in the bench. A whole picture is scored by
the head of its sub-task; a region by a head on cut-out regions, among which places without a region are a class of
their own, so that "which of these boxes" can be answered too. Among the options the one with the highest score is
chosen.
"""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.linear_model import LogisticRegression

from backbone.features import device_of, extract_features
from backbone.networks import Network, find_network
from runtime.console import say, warn
from runtime.errors import UserError
from runtime.files import make_directory, write_json, write_text
from runtime.images import decode_image, open_image
from scoring.k_center import unit
from scoring.replies import LETTERS
from vqa.bench.build import prepare_all
from vqa.bench.candidates import REGION_TASK, all_candidates
from vqa.bench.distractors import DistractorConfig, draw_distractors
from vqa.bench.items import Bench, Box, Item
from vqa.bench.keys import generator
from vqa.bench.pictures import Prepared
from vqa.bench.sources import Picture, read_sources
from vqa.bench.tasks import REGION
from vqa.bench.vocabulary import Vocabulary, load_vocabulary
from vqa.client.answers import ANSWERS, RUN, Answer
from vqa.client.prompts import Variant
from vqa.score.config import ContestantConfig
from vqa.score.shortcuts import option_boxes

_NOTHING = "(nothing)"
Vectors = NDArray[np.float64]


@dataclass(frozen=True)
class Head:
    """Scores [N, C] of entities for features [N, D]."""

    entities: list[str]
    score: Callable[[Vectors], Vectors]


def answer_with_encoder(bench: Bench, config: ContestantConfig) -> None:
    """Train heads on what the bench doesn't hold, and write answers like those of any other contestant."""
    vocabulary = load_vocabulary()
    network = find_network(config.weights).in_memory()
    samples = _training_samples(bench, config, vocabulary)
    heads = {}
    for subtask, pictures in samples.items():
        entities = [entity for _, entity in pictures]
        if len(set(entities)) < 2:
            warn(f"{subtask}: fewer than two answers outside the bench; its questions get no answer.")
            continue
        heads[subtask] = fit_head(_features(network, [image for image, _ in pictures], config), entities, config)
    letters = _choose_all(bench, heads, network, config, vocabulary)
    _write(bench, config, network, letters, {name: len(own) for name, own in samples.items()})


@dataclass(frozen=True)
class Cut:
    """A picture as the bench would show it, or a part of it; read when it is needed."""

    path: Path
    prepared: Prepared
    box: Box | None = None

    def open(self) -> Image.Image:
        sent = Image.fromarray(self.prepared.render(np.asarray(open_image(self.path))))
        return sent if self.box is None else sent.crop(self.box)


class _Opened:
    """Pictures that are read one by one."""

    def __init__(self, cuts: Sequence[Cut | Image.Image]) -> None:
        self._cuts = cuts

    def __len__(self) -> int:
        return len(self._cuts)

    def __getitem__(self, index: int) -> Image.Image:
        cut = self._cuts[index]
        return cut.open() if isinstance(cut, Cut) else cut


def _training_samples(
    bench: Bench, config: ContestantConfig, vocabulary: Vocabulary
) -> dict[str, list[tuple[Cut, str]]]:
    """Pictures and regions as the bench would show them, by sub-task, with their entities; no group of the bench."""
    sources = read_sources(Path(config.data), Path(config.regions) if config.regions else None, None)
    groups, digests = {item.group for item in bench.items}, {item.sha256 for item in bench.items}
    free = [p for p in sources.pictures if p.group not in groups and p.sha256 not in digests]
    if not free:
        raise UserError("every picture of the atlas is in a group of the bench: there is nothing to learn from.")
    wanted = {REGION_TASK if item.subtask in REGION else item.subtask for item in bench.items if item.kind == "choice"}
    candidates = [c for c in all_candidates(free, vocabulary) if c.subtask in wanted]
    facts = prepare_all({c.picture.sha256: c.picture for c in candidates}, config.pictures, Counter())
    samples: dict[str, list[tuple[Cut, str]]] = defaultdict(list)
    for candidate in candidates:
        prepared = facts.get(candidate.picture.sha256)
        if prepared is None:
            continue
        path = candidate.picture.path
        if candidate.region is None:
            samples[candidate.subtask].append((Cut(path, prepared), candidate.entity))
            continue
        box = prepared.box(candidate.picture.regions[candidate.region].box)
        if box is not None:
            empty = _empty_places(candidate.picture, box, prepared)
            samples[REGION_TASK].append((Cut(path, prepared, box), candidate.entity))
            samples[REGION_TASK] += [(Cut(path, prepared, place), _NOTHING) for place in empty]
    counts = ", ".join(f"{len(own)} for {name}" for name, own in sorted(samples.items()))
    say(f"{len(free)} pictures outside the bench: {counts}")
    return samples


def _empty_places(picture: Picture, box: Box, prepared: Prepared) -> list[Box]:
    """A place of about the region's size that holds none of the picture's regions; none when there is no room."""
    taken = [b for region in picture.regions if (b := prepared.box(region.box)) is not None]
    random = generator("empty place", picture.sha256, box)
    return draw_distractors(box, taken, 1, prepared.size, prepared.inside_share, DistractorConfig(), random) or []


def _features(network: Network, images: Sequence[Cut | Image.Image], config: ContestantConfig) -> Vectors:
    on = device_of(config.device, "device")
    module = network.load().to(on)
    return unit(extract_features(module, _Opened(images), network.preprocessing, device=on).numpy())


def fit_head(vectors: Vectors, entities: list[str], config: ContestantConfig) -> Head:
    names = sorted(set(entities))
    if config.head == "nearest":
        members = [np.flatnonzero(np.array(entities) == name) for name in names]
        return Head(names, lambda x: np.stack([(x @ vectors[own].T).max(axis=1) for own in members], axis=1))
    mean, spread = vectors.mean(axis=0), vectors.std(axis=0) + 1e-6
    model = LogisticRegression(C=config.strength, max_iter=2000, class_weight="balanced")
    model.fit((vectors - mean) / spread, entities)

    def log_odds(x: Vectors) -> Vectors:
        return np.asarray(model.predict_log_proba((x - mean) / spread), np.float64)

    return Head([str(name) for name in model.classes_], log_odds)


def _choose_all(
    bench: Bench, heads: dict[str, Head], network: Network, config: ContestantConfig, vocabulary: Vocabulary
) -> dict[str, str]:
    """The letter for each question; empty where no head can tell."""
    items = [item for item in bench.items if item.kind == "choice"]
    images: list[Image.Image] = []
    spans = []
    for item in items:
        picture = Image.fromarray(decode_image(bench.picture(item), item.image))
        boxes = option_boxes(item)
        if boxes is None and item.subtask in REGION:
            boxes = [list(region.box) for region in item.regions if region.target]
        parts = [picture] if boxes is None else [picture.crop((b[0], b[1], b[2], b[3])) for b in boxes]
        spans.append((len(images), len(images) + len(parts)))
        images += parts
    vectors = _features(network, images, config)
    letters = {}
    for item, (first, last) in zip(items, spans, strict=True):
        head = heads.get(REGION_TASK if item.subtask in REGION else item.subtask)
        letters[item.id] = "" if head is None else _choose(item, head, vectors[first:last], vocabulary)
    return letters


def _choose(item: Item, head: Head, vectors: Vectors, vocabulary: Vocabulary) -> str:
    scores = head.score(vectors)  # [boxes or 1, C]
    if item.subtask in ("VG", "RS"):
        if item.entity not in head.entities:
            return ""
        return LETTERS[int(np.argmax(scores[:, head.entities.index(item.entity)]))]
    by_name = {vocabulary.name(entity): float(scores[0, n]) for n, entity in enumerate(head.entities)}
    known = [by_name.get(option, -np.inf) for option in item.options]
    return LETTERS[int(np.argmax(known))] if np.isfinite(known).any() else ""


def _write(
    bench: Bench, config: ContestantConfig, network: Network, letters: dict[str, str], trained_on: dict[str, int]
) -> None:
    out = make_directory(config.out)
    name = config.name or f"{network.name} ({config.head} head)"
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    lines = [Answer(id_, Variant(), name, letter, "stop", time=now).to_line() for id_, letter in letters.items()]
    write_text(out / ANSWERS, "".join(lines))
    run = {
        "name": name,
        "kind": "encoder",
        "bench": bench.manifest["name"],
        "bench_sha256": bench.checksum,
        "model": network.name,
        "weights_sha256": network.weights_sha256,
        "head": config.head,
        "trained_on": trained_on,
    }
    write_json(out / RUN, run)
    say(f"{len(letters)} answers of {name} → {out / ANSWERS}")
