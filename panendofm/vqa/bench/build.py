"""An atlas → a bench. Same atlas, settings and seed: the same bytes."""

from __future__ import annotations

import copy
import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from panendofm.atlas import load_mappings
from panendofm.backbone import FeatureCache
from panendofm.backbone.networks import Network, find_network, network_features
from panendofm.imaging.images import open_image
from panendofm.runtime.console import say, track
from panendofm.runtime.files import atomic_directory, user_cache
from panendofm.vqa.bench.bench_folder import IMAGES, Manifest, NetworkNote, write_bench
from panendofm.vqa.bench.config import BuildConfig, ImageConfig
from panendofm.vqa.bench.images.draw import OUTLINED, draw_marks, encode_jpeg, encode_png
from panendofm.vqa.bench.images.prepare import Prepared, prepare
from panendofm.vqa.bench.images.sources import SourceImage, Sources, read_sources
from panendofm.vqa.bench.items import Item
from panendofm.vqa.bench.operations.source import operation_sources, source_of
from panendofm.vqa.bench.questions.candidates import Candidate
from panendofm.vqa.bench.questions.select import Features, select
from panendofm.vqa.bench.review import apply_review, read_review
from panendofm.vqa.benchmark import find_benchmark

_INPUTS = ("regions", "annotations", "templates", "review", "references")
# Places differ from machine to machine, and change no question.
_PLACES = ("data", "out", "network", "device", "cache", *_INPUTS)


def sources_of(config: BuildConfig) -> Sources:
    return read_sources(
        Path(config.data),
        optional_path(config.regions),
        optional_path(config.annotations),
        config.all_regions_listed,
        [Path(folder) for folder in config.operations],
    )


def build_bench(config: BuildConfig) -> None:
    """Write the bench that the settings describe."""
    benchmark = find_benchmark(config.benchmark)
    sources = sources_of(config)
    left_out = sources.left_out
    builder = benchmark.builder(benchmark, config, left_out)
    candidates = builder.candidates(sources.images)
    facts = prepare_all({c.image.sha256: c.image for c in candidates}, config.images, left_out)
    candidates = builder.usable([c for c in candidates if c.image.sha256 in facts])
    network = find_network(config.network)
    features = _features(candidates, network, config)
    selection = select(candidates, features, builder.cap, config.questions_per_subtask, config.seed)
    items = only_once(builder.items(selection.chosen, facts), left_out)
    items, review = apply_review(items, read_review(Path(config.review)) if config.review else [])
    items = builder.for_people(items)
    builder.report(items)
    for reason, count in sorted(left_out.items()):
        say(f"left out: {count} × {reason}")
    with atomic_directory(config.out) as folder:
        items = render_items(items, {image.sha256: image for image in sources.images}, facts, folder)
        manifest = Manifest(
            config.name,
            benchmark.name,
            seed=config.seed,
            config=_without_places(config),
            inputs=_input_checksums(config),
            network=NetworkNote(network.name, network.weights_sha256),
            selection=selection.report,
            left_out=dict(sorted(left_out.items())),
            licenses=licenses_of(items),
            reviewed=review.reviewed,
            review=review.note,
        )
        write_bench(folder, [replace(item, benchmark=config.name) for item in items], builder.complete(manifest))
    images = len({item.sha256 for item in items})
    people = [item for item in items if item.human]
    shown = len({item.sha256 for item in people})
    for_people = f", {len(people)} about {shown} images for people" if people else ""
    say(f"{len(items)} questions about {images} images{for_people} → {config.out}; reviewed: {review.reviewed}")


def _without_places(config: BuildConfig) -> BuildConfig:
    copied = copy.deepcopy(config)
    for key in _PLACES:
        setattr(copied, key, "")
    copied.operations = [source_of(Path(folder)).name for folder in config.operations]
    return copied


def optional_path(text: str) -> Path | None:
    return Path(text) if text else None


def prepare_all(images: dict[str, SourceImage], config: ImageConfig, left_out: Counter[str]) -> dict[str, Prepared]:
    """How each image is sent; those that are unfit are counted."""
    order = sorted(images)
    facts = {}
    with ThreadPoolExecutor(os.cpu_count() or 1, "prepare") as pool:
        results = pool.map(lambda sha256: prepare(images[sha256].path, config), order)
        for sha256, result in zip(order, track(results, "images", len(order), "images"), strict=True):
            if isinstance(result, Prepared):
                facts[sha256] = result
            else:
                left_out[result] += 1
    return facts


def _features(candidates: Sequence[Candidate], network: Network, config: BuildConfig) -> Features:
    paths = {c.image.sha256: c.image.path for c in candidates}
    order = sorted(paths)
    if not order:
        return {}
    cache = FeatureCache(config.cache or user_cache("vqa"))
    digest = hashlib.sha256("\n".join(order).encode()).hexdigest()
    rows = network_features(network, [paths[sha256] for sha256 in order], digest, cache, device=config.device)
    return dict(zip(order, np.asarray(rows.numpy(), np.float32), strict=True))


def only_once(items: Sequence[Item], left_out: Counter[str]) -> list[Item]:
    """Two regions of one box would give one question twice."""
    first: dict[str, Item] = {}
    for item in items:
        first.setdefault(item.id, item)
    if len(first) < len(items):
        left_out["question was there already"] += len(items) - len(first)
    return list(first.values())


def render_items(
    items: Sequence[Item], images: dict[str, SourceImage], facts: dict[str, Prepared], folder: Path
) -> list[Item]:
    """Draw and write the images; marked ones without loss. Equal images are one file."""
    by_image: dict[str, list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        by_image[item.sha256].append(number)
    result = list(items)
    (folder / IMAGES).mkdir()
    for sha256 in track(sorted(by_image), "drawing", len(by_image), "images"):
        sent = facts[sha256].render(np.asarray(open_image(images[sha256].path)))
        for number in by_image[sha256]:
            item = items[number]
            if any(region.color for region in item.regions):
                marked = draw_marks(sent, item.regions, outline=item.prompt_kind in OUTLINED)
                content, suffix = encode_png(marked), "png"
            else:
                content, suffix = encode_jpeg(sent), "jpg"
            name = f"{IMAGES}/{hashlib.sha256(content).hexdigest()[:16]}.{suffix}"
            if not (folder / name).exists():
                (folder / name).write_bytes(content)  # the folder as a whole is made durable at its end
            result[number] = replace(item, image=name)
    return result


def licenses_of(items: Sequence[Item]) -> dict[str, str]:
    mappings = load_mappings()
    datasets = {dataset for item in items for dataset in item.dataset.split("+")}
    known = {source.name: source.license for source in operation_sources()}
    known |= {name: mapping.license for name, mapping in mappings.items()}
    return {name: known.get(name, "unknown") for name in sorted(datasets)}


def _input_checksums(config: BuildConfig) -> dict[str, str]:
    """Checksums of what was read beside the atlas, whose file holds paths and differs from place to place."""
    found = {}
    for key in _INPUTS:
        path = Path(getattr(config, key))
        if getattr(config, key) and path.is_file():
            found[key] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found
