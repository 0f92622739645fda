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
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.linear_model import LogisticRegression

from panendofm.backbone import device_of, extract_features
from panendofm.backbone.networks import Network, find_network
from panendofm.imaging.images import decode_image, open_image
from panendofm.runtime.console import say, warn
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import make_directory, write_json, write_text
from panendofm.scoring.answers.replies import LETTERS
from panendofm.scoring.features.k_center import unit
from panendofm.vqa.bench.build import prepare_all
from panendofm.vqa.bench.config import DistractorConfig
from panendofm.vqa.bench.images.prepare import Prepared
from panendofm.vqa.bench.images.sources import Picture, read_sources
from panendofm.vqa.bench.items import Bench, Box, Item
from panendofm.vqa.bench.keys import generator
from panendofm.vqa.bench.lesion_config import QUESTIONS, LesionClass
from panendofm.vqa.bench.lesions import shows
from panendofm.vqa.bench.questions.candidates import REGION_TASK, all_candidates
from panendofm.vqa.bench.questions.distractors import draw_distractors
from panendofm.vqa.bench.questions.tasks import REGION
from panendofm.vqa.bench.questions.vocabulary import Vocabulary, load_vocabulary
from panendofm.vqa.client.answers import ANSWERS, RUN, Answer
from panendofm.vqa.client.prompts import Variant
from panendofm.vqa.score.config import ContestantConfig
from panendofm.vqa.score.shortcuts import option_boxes

_NOTHING = "(nothing)"
# Boxes that are tried for a lesion: sides as shares of the picture's shorter one, moved by half their size.
_SIDES = (0.3, 0.45, 0.65)
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
    told = {name: own for name, own in samples.items() if len({entity for _, entity in own}) > 1}
    for subtask in sorted(set(samples) - set(told)):
        warn(f"{subtask}: fewer than two answers outside the bench; its questions get no answer.")
    # Several heads learn from one picture: its features are computed once.
    place: dict[int, int] = {}
    openers: list[Opener] = []
    for opener, _ in (sample for own in told.values() for sample in own):
        if id(opener) not in place:
            place[id(opener)] = len(openers)
            openers.append(opener)
    vectors = _features(network, openers, config) if openers else np.zeros((0, 1))
    heads = {
        subtask: fit_head(vectors[[place[id(opener)] for opener, _ in own]], [entity for _, entity in own], config)
        for subtask, own in told.items()
    }
    replies = _choose_all(bench, heads, network, config, vocabulary)
    _write(bench, config, network, replies, {name: len(own) for name, own in samples.items()})


Opener = Callable[[], Image.Image]  # a picture, or a part of one, that is read when it is needed
Samples = dict[str, list[tuple[Opener, str]]]  # pictures with their answers, by the head that learns from them


def _sent(path: Path, prepared: Prepared, box: Box | None = None) -> Image.Image:
    """A picture of the atlas as a bench would show it."""
    whole = _rendered(path, prepared)
    return whole if box is None else whole.crop(box)


# Many parts of one picture are asked for in a row.
@lru_cache(maxsize=4)
def _rendered(path: Path, prepared: Prepared) -> Image.Image:
    return Image.fromarray(prepared.render(np.asarray(open_image(path))))


@lru_cache(maxsize=4)
def _decoded(path: Path) -> Image.Image:
    with naming_path("read the picture", path):
        return Image.fromarray(decode_image(path.read_bytes(), path.name))


def _shown(bench: Bench, item: Item, box: Sequence[int] | None = None) -> Image.Image:
    """A picture of the bench."""
    whole = _decoded(bench.folder / item.image)
    return whole if box is None else whole.crop((box[0], box[1], box[2], box[3]))


class _Opened:
    """Pictures that are read one by one."""

    def __init__(self, openers: Sequence[Opener]) -> None:
        self._openers = openers

    def __len__(self) -> int:
        return len(self._openers)

    def __getitem__(self, index: int) -> Image.Image:
        return self._openers[index]()


def _training_samples(bench: Bench, config: ContestantConfig, vocabulary: Vocabulary) -> Samples:
    """Pictures and regions as the bench would show them, by sub-task, with their entities; no group of the bench."""
    sources = read_sources(Path(config.data), Path(config.regions) if config.regions else None, None)
    groups, digests = {item.group for item in bench.items}, {item.sha256 for item in bench.items}
    free = [p for p in sources.pictures if p.group not in groups and p.sha256 not in digests]
    if not free:
        raise UserError("every picture of the atlas is in a group of the bench: there is nothing to learn from.")
    if bench.manifest.get("profile") == "gi_bench":
        return _lesion_samples(bench, free, config)
    wanted = {REGION_TASK if item.subtask in REGION else item.subtask for item in bench.items if item.kind == "choice"}
    candidates = [c for c in all_candidates(free, vocabulary) if c.subtask in wanted]
    facts = prepare_all({c.picture.sha256: c.picture for c in candidates}, config.pictures, Counter())
    samples: Samples = defaultdict(list)
    for candidate in candidates:
        prepared = facts.get(candidate.picture.sha256)
        if prepared is None:
            continue
        path = candidate.picture.path
        if candidate.region is None:
            samples[candidate.subtask].append((partial(_sent, path, prepared), candidate.entity))
            continue
        box = prepared.box(candidate.picture.regions[candidate.region].box)
        if box is not None:
            empty = _empty_places(candidate.picture, box, prepared)
            samples[REGION_TASK].append((partial(_sent, path, prepared, box), candidate.entity))
            samples[REGION_TASK] += [(partial(_sent, path, prepared, place), _NOTHING) for place in empty]
    counts = ", ".join(f"{len(own)} for {name}" for name, own in sorted(samples.items()))
    say(f"{len(free)} pictures outside the bench: {counts}")
    return samples


def _lesion_samples(bench: Bench, pictures: Sequence[Picture], config: ContestantConfig) -> Samples:
    """The same for the questions about one lesion: sites, lesions, and cut-out lesions beside empty places."""
    classes = [LesionClass(**values) for values in bench.manifest["classes"]]
    own = [(p, shown[0]) for p in pictures if len(shown := [c for c in classes if shows(p, c)]) == 1]
    facts = prepare_all({p.sha256: p for p, _ in own}, config.pictures, Counter())
    samples: Samples = defaultdict(list)
    for picture, lesion in own:
        prepared = facts.get(picture.sha256)
        if prepared is None:
            continue
        whole = partial(_sent, picture.path, prepared)
        samples["Q1"].append((whole, bench.manifest["sites"][lesion.site]))
        samples["Q3"].append((whole, lesion.name))
        findings = {finding.split("/")[0] for finding in lesion.findings}
        for region in picture.regions:
            box = prepared.box(region.box)
            if region.label.finding in findings and box is not None:
                samples["Q2"].append((partial(_sent, picture.path, prepared, box), lesion.name))
                empty = _empty_places(picture, box, prepared)
                samples["Q2"] += [(partial(_sent, picture.path, prepared, place), _NOTHING) for place in empty]
    return samples


def _empty_places(picture: Picture, box: Box, prepared: Prepared) -> list[Box]:
    """A place of about the region's size that holds none of the picture's regions; none when there is no room."""
    taken = [b for region in picture.regions if (b := prepared.box(region.box)) is not None]
    random = generator("empty place", picture.sha256, box)
    return draw_distractors(box, taken, 1, prepared.size, prepared.inside_share, DistractorConfig(), random) or []


def _features(network: Network, images: Sequence[Opener], config: ContestantConfig) -> Vectors:
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
    """The letter or box for each question; empty where no head can tell. Texts are not an encoder's business."""
    items = [item for item in bench.items if item.kind in ("choice", "box")]
    images: list[Opener] = []
    spans = []
    for item in items:
        boxes = option_boxes(item)
        if boxes is None and item.subtask in REGION:
            boxes = [list(region.box) for region in item.regions if region.target]
        if item.kind == "box":
            boxes = _proposals(item)
        parts = [None] if boxes is None else boxes
        spans.append((len(images), len(images) + len(parts)))
        images += [partial(_shown, bench, item, box) for box in parts]
    vectors = _features(network, images, config)
    replies = {}
    for item, (first, last) in zip(items, spans, strict=True):
        head = heads.get(REGION_TASK if item.subtask in REGION else item.subtask)
        replies[item.id] = "" if head is None else _choose(item, head, vectors[first:last], vocabulary)
    return replies


def _proposals(item: Item) -> list[list[int]]:
    """Squares of a few sizes all over the picture."""
    boxes = []
    for share in _SIDES:
        side = max(8, round(share * min(item.width, item.height)))
        for y in range(0, item.height - side + 1, max(1, side // 2)):
            boxes += [[x, y, x + side, y + side] for x in range(0, item.width - side + 1, max(1, side // 2))]
    return boxes


def _choose(item: Item, head: Head, vectors: Vectors, vocabulary: Vocabulary) -> str:
    scores = head.score(vectors)  # [boxes or 1, C]
    if item.kind == "box":
        empty = scores[:, head.entities.index(_NOTHING)]
        gain = np.delete(scores, head.entities.index(_NOTHING), axis=1).max(axis=1) - empty
        best = int(np.argmax(gain))
        return str(_proposals(item)[best]) if gain[best] > 0 else "None"
    if item.subtask in ("VG", "RS"):
        if item.entity not in head.entities:
            return ""
        return LETTERS[int(np.argmax(scores[:, head.entities.index(item.entity)]))]
    names = head.entities if item.task in QUESTIONS else [vocabulary.name(entity) for entity in head.entities]
    by_name = dict(zip(names, (float(score) for score in scores[0]), strict=True))
    known = [by_name.get(option, -np.inf) for option in item.options]
    return LETTERS[int(np.argmax(known))] if np.isfinite(known).any() else ""


def _write(
    bench: Bench, config: ContestantConfig, network: Network, replies: dict[str, str], trained_on: dict[str, int]
) -> None:
    out = make_directory(config.out)
    name = config.name or f"{network.name} ({config.head} head)"
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    lines = [Answer(id_, Variant(), name, reply, "stop", time=now).to_line() for id_, reply in replies.items()]
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
    say(f"{len(replies)} answers of {name} → {out / ANSWERS}")
