"""A frozen encoder as a contestant: it answers the same questions by linear heads, or by nearest neighbors.

Heads are trained on images and regions of the atlas whose groups are not in the bench. A whole image is scored by the
head of its question type; a region by a head on cut-out regions, among which places without a region are a class of
their own, so that "which of these boxes" can be answered too. Among the options the one with the highest score is
chosen.
"""

from __future__ import annotations

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
from panendofm.scoring.answers.replies import LETTERS
from panendofm.scoring.features.k_center import unit
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.build import prepare_all
from panendofm.vqa.bench.config import DistractorConfig
from panendofm.vqa.bench.images.prepare import Prepared
from panendofm.vqa.bench.images.sources import SourceImage, read_sources
from panendofm.vqa.bench.items import Box, Item
from panendofm.vqa.bench.keys import generator
from panendofm.vqa.bench.questions.distractors import draw_distractors
from panendofm.vqa.benchmark import Benchmark, Example
from panendofm.vqa.client.answers import ANSWERS, ENCODER, Answer, Run, Variant, write_answers
from panendofm.vqa.client.run import time_now
from panendofm.vqa.reply_kinds import BOX
from panendofm.vqa.score.accuracy.shortcuts import option_boxes
from panendofm.vqa.score.config import EncoderConfig

_NOTHING = "(nothing)"
# Boxes that are tried for a lesion: sides as shares of the image's shorter one, moved by half their size.
_SIDES = (0.3, 0.45, 0.65)
Vectors = NDArray[np.float64]
Opener = Callable[[], Image.Image]  # an image, or a part of one, that is read when it is needed


@dataclass(frozen=True)
class Head:
    """Scores [N, C] of entities for features [N, D]."""

    entities: list[str]
    score: Callable[[Vectors], Vectors]


@dataclass(frozen=True)
class Sample:
    """An image as the bench would show it, or a box of it, and the answer."""

    path: Path
    prepared: Prepared
    entity: str
    box: Box | None = None

    def open(self) -> Image.Image:
        whole = _rendered(self.path, self.prepared)
        return whole if self.box is None else whole.crop(self.box)


Samples = dict[str, list[Sample]]  # by the head that learns from them


def answer_with_encoder(benchmark: Benchmark, bench: Bench, config: EncoderConfig) -> None:
    """Train heads on what the bench doesn't hold, and write answers like those of any other contestant."""
    network = find_network(config.network).in_memory()
    samples = _training_samples(benchmark, bench, config)
    told = {name: own for name, own in samples.items() if len({sample.entity for sample in own}) > 1}
    for name in sorted(set(samples) - set(told)):
        warn(f"{name}: fewer than two answers outside the bench; its questions get no answer.")
    # Several heads learn from one image: its features are computed once.
    places: dict[tuple[Path, Box | None], int] = {}
    openers: list[Opener] = []
    for sample in (sample for own in told.values() for sample in own):
        if (sample.path, sample.box) not in places:
            places[sample.path, sample.box] = len(openers)
            openers.append(sample.open)
    vectors = _features(network, openers, config) if openers else np.zeros((0, 1))
    heads = {}
    for name, own in told.items():
        rows = vectors[[places[sample.path, sample.box] for sample in own]]
        heads[name] = fit_head(rows, [sample.entity for sample in own], config)
    replies = _choose_all(benchmark, bench, heads, network, config)
    name = config.name or f"{network.name} ({config.head} head)"
    run = Run(
        bench_sha256=bench.checksum,
        name=name,
        kind=ENCODER,
        bench=bench.manifest.name,
        model=network.name,
        weights_sha256=network.weights_sha256,
        head=config.head,
        trained_on={head: len(own) for head, own in samples.items()},
    )
    now = time_now()
    answers = [Answer(id_, Variant(), name, reply, "stop", time=now) for id_, reply in replies.items()]
    write_answers(Path(config.out), run, answers)
    say(f"{len(replies)} answers of {name} → {Path(config.out) / ANSWERS}")


# Many parts of one image are asked for in a row.
@lru_cache(maxsize=4)
def _rendered(path: Path, prepared: Prepared) -> Image.Image:
    return Image.fromarray(prepared.render(np.asarray(open_image(path))))


@lru_cache(maxsize=4)
def _decoded(path: Path) -> Image.Image:
    with naming_path("read the image", path):
        return Image.fromarray(decode_image(path.read_bytes(), path.name))


def _shown(bench: Bench, item: Item, box: Sequence[int] | None = None) -> Image.Image:
    """An image of the bench."""
    whole = _decoded(bench.folder / item.image)
    return whole if box is None else whole.crop((box[0], box[1], box[2], box[3]))


class _Opened:
    """Images that are read one by one."""

    def __init__(self, openers: Sequence[Opener]) -> None:
        self._openers = openers

    def __len__(self) -> int:
        return len(self._openers)

    def __getitem__(self, index: int) -> Image.Image:
        return self._openers[index]()


def _training_samples(benchmark: Benchmark, bench: Bench, config: EncoderConfig) -> Samples:
    """Images and regions as the bench would show them, by head, with their entities; no group of the bench."""
    sources = read_sources(Path(config.data), Path(config.regions) if config.regions else None, None)
    groups = {item.group for item in bench.items}
    digests = {item.sha256 for item in bench.items}
    free = [image for image in sources.images if image.group not in groups and image.sha256 not in digests]
    if not free:
        raise UserError("every image of the atlas is in a group of the bench: there is nothing to learn from.")
    examples = benchmark.examples(benchmark, bench, free)
    facts = prepare_all({example.image.sha256: example.image for example in examples}, config.images, Counter())
    samples: Samples = defaultdict(list)
    for example in examples:
        if example.image.sha256 in facts:
            samples[example.head] += _samples(example, facts[example.image.sha256])
    counts = ", ".join(f"{len(own)} for {name}" for name, own in sorted(samples.items()))
    say(f"{len(free)} images outside the bench: {counts}")
    return samples


def _samples(example: Example, prepared: Prepared) -> list[Sample]:
    """The example itself, and beside a region a place that holds nothing."""
    path = example.image.path
    if example.box is None:
        return [Sample(path, prepared, example.entity)]
    box = prepared.box(example.box)
    if box is None:
        return []
    empty = _empty_places(example.image, box, prepared)
    return [Sample(path, prepared, example.entity, box), *(Sample(path, prepared, _NOTHING, p) for p in empty)]


def _empty_places(image: SourceImage, box: Box, prepared: Prepared) -> list[Box]:
    """A place of about the region's size that holds none of the image's regions; none when there is no room."""
    taken = [b for region in image.regions if (b := prepared.box(region.box)) is not None]
    random = generator("empty place", image.sha256, box)
    return draw_distractors(box, taken, 1, prepared.size, prepared.inside_share, DistractorConfig(), random) or []


def _features(network: Network, images: Sequence[Opener], config: EncoderConfig) -> Vectors:
    on = device_of(config.device, "device")
    module = network.load().to(on)
    return unit(extract_features(module, _Opened(images), network.preprocessing, device=on).numpy())


def fit_head(vectors: Vectors, entities: list[str], config: EncoderConfig) -> Head:
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
    benchmark: Benchmark, bench: Bench, heads: dict[str, Head], network: Network, config: EncoderConfig
) -> dict[str, str]:
    """The letter or box for each question; empty where no head can tell. Texts are not an encoder's business."""
    items = [item for item in bench.items if not benchmark.type_of(item).kind.rated]
    images: list[Opener] = []
    spans = []
    for item in items:
        boxes = _boxes_to_look_at(item)
        spans.append((len(images), len(images) + len(boxes)))
        images += [partial(_shown, bench, item, box) for box in boxes]
    vectors = _features(network, images, config)
    replies = {}
    for item, (first, last) in zip(items, spans, strict=True):
        head = heads.get(benchmark.type_of(item).head)
        replies[item.id] = "" if head is None else _choose(benchmark, item, head, vectors[first:last])
    return replies


def _boxes_to_look_at(item: Item) -> Sequence[Sequence[int] | None]:
    """Where a box is asked for, many; else those that the options or the question name, or the whole image."""
    if item.kind == BOX.name:
        return _proposals(item)
    return option_boxes(item) or item.target_boxes or [None]


def _proposals(item: Item) -> list[list[int]]:
    """Squares of a few sizes all over the image."""
    boxes = []
    for share in _SIDES:
        side = max(8, round(share * min(item.width, item.height)))
        for y in range(0, item.height - side + 1, max(1, side // 2)):
            boxes += [[x, y, x + side, y + side] for x in range(0, item.width - side + 1, max(1, side // 2))]
    return boxes


def _choose(benchmark: Benchmark, item: Item, head: Head, vectors: Vectors) -> str:
    scores = head.score(vectors)  # [boxes or 1, C]
    if item.kind == BOX.name:
        empty = scores[:, head.entities.index(_NOTHING)]
        gain = np.delete(scores, head.entities.index(_NOTHING), axis=1).max(axis=1) - empty
        best = int(np.argmax(gain))
        return str(_proposals(item)[best]) if gain[best] > 0 else "None"
    if option_boxes(item) is not None:
        if item.entity not in head.entities:
            return ""
        return LETTERS[int(np.argmax(scores[:, head.entities.index(item.entity)]))]
    name = benchmark.type_of(item).option_name
    by_name = {name(entity): float(score) for entity, score in zip(head.entities, scores[0], strict=True)}
    known = [by_name.get(option, -np.inf) for option in item.options]
    return LETTERS[int(np.argmax(known))] if np.isfinite(known).any() else ""
