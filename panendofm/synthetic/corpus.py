"""Write the whole synthetic corpus."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import cv2

from panendofm.runtime.console import ProgressBar, duration, progress, say
from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_directory, failed_checksums, write_bytes, write_checksums
from panendofm.synthetic.imbalanced import DULL, IMBALANCED, RARE, plan_imbalanced
from panendofm.synthetic.labeled import LabeledPlan, make_labeled, plan_labeled
from panendofm.synthetic.plan import SourcePlan, plan_sources
from panendofm.synthetic.planted import (
    CopyPlan,
    add_leaks,
    describe_copy,
    describe_leaks,
    make_copy,
    make_defect,
    plan_copies,
    plan_defects,
)
from panendofm.synthetic.regions import LABELS, Region, write_regions
from panendofm.synthetic.scene.devices import geometry_of
from panendofm.synthetic.segmented import make_segmented, plan_segmented, write_boxes
from panendofm.synthetic.sources import describe, geometry_name, make_source
from panendofm.synthetic.truth import (
    TRUTH_NAME,
    Box,
    Defect,
    Duplicate,
    EvaluationImage,
    Geometry,
    Imbalance,
    Segmented,
    Source,
    Span,
    Truth,
    read_truth,
    write_truth,
)
from panendofm.synthetic.video_boxes import FrameBoxes, LabeledPolyps, frame_boxes, write_frame_boxes

CHECKSUMS_NAME = "SHA256SUMS"
# An image of ERS that is stored twice: (copy, original), both of one patient.
ERS_COPY = ("ers/0001/samples/frames/000009.png", "ers/0001/seq_01/frames/000003.png")


def synthesize(directory: Path | str, size: str = "small", seed: int = 0, processes: int | None = None) -> Truth:
    """Write the corpus to `directory` and return its truth. A complete corpus of the same size and seed is kept."""
    directory = Path(directory)
    present = _already_there(directory, size, seed)
    if present is not None:
        say(f"{directory} holds the synthetic corpus of size {size} and seed {seed} already: nothing to do.")
        return present
    began = time.monotonic()
    with atomic_directory(directory) as temporary:
        truth = _make_all(temporary, size, seed, processes or os.cpu_count() or 1)
        write_truth(truth, temporary)
        files = [p.relative_to(temporary).as_posix() for p in temporary.rglob("*") if p.is_file()]
        write_checksums(temporary, files, CHECKSUMS_NAME)
    videos = [source for source in truth.sources if source.media == "video"]
    images = sum(source.frames for source in truth.sources if source.media == "images")
    say(
        f"wrote {directory} in {duration(time.monotonic() - began)}: {len(videos)} videos with "
        f"{sum(v.frames for v in videos)} frames, {images} images, "
        f"{len(truth.evaluation)} labeled and {len(truth.segmented)} segmented images; "
        f"planted: {len(truth.leaks)} leaks, {len(truth.duplicates)} copies, "
        f"{len(truth.defects)} broken files (all listed in {TRUTH_NAME})."
    )
    return truth


def _already_there(directory: Path, size: str, seed: int) -> Truth | None:
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return None
    if not (directory / TRUTH_NAME).is_file() or not (directory / CHECKSUMS_NAME).is_file():
        raise UserError(f"cannot write {directory}: it holds something else; choose another folder or empty this one.")
    truth = read_truth(directory)
    if (truth.size, truth.seed) != (size, seed):
        raise UserError(
            f"cannot write {directory}: it holds a corpus of size {truth.size} and seed {truth.seed}; "
            "choose another folder or remove it."
        )
    damaged = failed_checksums(directory, CHECKSUMS_NAME)
    if damaged:
        raise UserError(
            f"{directory / damaged[0]} is missing or was changed ({len(damaged)} such files); "
            "remove the folder and run the same command again."
        )
    return truth


def _make_all(directory: Path, size: str, seed: int, processes: int) -> Truth:
    labeled = plan_labeled(size, seed)
    is_whole = size != IMBALANCED
    plans = add_leaks(plan_sources(size, seed), labeled, seed) if is_whole else plan_imbalanced()
    copies, defects = plan_copies(plans, size), plan_defects(plans, size)
    segmented = plan_segmented(size, seed)
    jobs = len(labeled) + len(segmented) + 2 * len(plans) + len(copies) + len(defects)
    with _pool(processes) as run, progress("synthetic corpus", jobs, "files") as bar:
        # Leaks need the labeled images, copies need the videos: so three rounds. Long jobs go first.
        regions: list[list[Region]] = run(bar, partial(make_labeled, directory, seed=seed), labeled)
        run(bar, partial(make_source, directory, seed=seed), sorted(plans, key=_work, reverse=True))
        broken: list[Defect] = run(bar, partial(make_defect, directory, seed=seed), defects)
        run(bar, partial(make_copy, directory), copies)
        found: list[list[Segmented]] = run(bar, partial(make_segmented, directory, seed=seed), segmented)
        polyps = _labeled_polyps(labeled, regions)
        boxes: list[list[FrameBoxes]] = run(bar, partial(frame_boxes, labeled=polyps, seed=seed), plans)
    if is_whole:
        write_bytes(directory / ERS_COPY[0], (directory / ERS_COPY[1]).read_bytes())
        _write_endofm_list(directory)
    sources, duplicates = _describe_sources(plans, copies)
    write_regions(directory, [region for of_scene in regions for region in of_scene])
    write_frame_boxes(directory, [row for of_source in boxes for row in of_source])
    images = [image for of_scene in found for image in of_scene]
    write_boxes(directory, images)
    return Truth(
        size=size,
        seed=seed,
        geometries=_geometries(labeled, plans, copies),
        sources=tuple(sources),
        evaluation=tuple(
            EvaluationImage(path, plan.label, geometry_name(plan.device, plan.width, plan.height), plan.group)
            for plan in labeled
            for path in plan.paths
        ),
        segmented=tuple(images),
        leaks=tuple(leak for plan in plans for leak in describe_leaks(plan)),
        duplicates=tuple(duplicates),
        defects=tuple(broken),
        imbalance=None if is_whole else Imbalance(DULL, RARE, _frames_of_scenes(plans)),
    )


def _frames_of_scenes(plans: list[SourcePlan]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for span in (span for plan in plans for span in plan.scenes):
        counts[span.what] += span.last - span.first + 1
    return dict(counts)


def _labeled_polyps(plans: list[LabeledPlan], regions: list[list[Region]]) -> dict[str, LabeledPolyps]:
    """By path; images without a polyp are left out."""
    sizes = {path: (plan.width, plan.height) for plan in plans for path in plan.paths}
    boxes: dict[str, list[Box]] = {}
    for region in (region for of_scene in regions for region in of_scene):
        if region.label == LABELS["polyp"]:
            boxes.setdefault(region.file, []).append(region.box)
    return {path: LabeledPolyps(*sizes[path], tuple(found)) for path, found in boxes.items()}


def _work(plan: SourcePlan) -> int:
    return plan.frames * plan.width * plan.height


_Run = Callable[[ProgressBar, Callable[[Any], Any], Sequence[Any]], list[Any]]


@contextmanager
def _pool(processes: int) -> Iterator[_Run]:
    """Run a function over plans in so many processes; results come in the order of the plans."""
    _one_thread()

    def collect(bar: ProgressBar, results: Iterator[Any]) -> list[Any]:
        done = []
        for result in results:
            done.append(result)
            bar.advance()
        return done

    if processes == 1:
        yield lambda bar, function, plans: collect(bar, map(function, plans))
        return
    context = multiprocessing.get_context("spawn")  # safe beside threads, which a caller may have started
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_one_thread) as executor:
        yield lambda bar, function, plans: collect(bar, executor.map(function, plans))


def _one_thread() -> None:
    cv2.setNumThreads(1)


def _describe_sources(plans: list[SourcePlan], copies: list[CopyPlan]) -> tuple[list[Source], list[Duplicate]]:
    sources = {plan.path: describe(plan) for plan in plans}
    duplicates = []
    for copy in copies:
        source, duplicate = describe_copy(copy, sources[copy.of.path])
        sources[source.path] = source
        duplicates.append(duplicate)
    path, original = ERS_COPY
    if original.rpartition("/")[0] not in sources:
        return list(sources.values()), duplicates
    duplicates.append(Duplicate(path, original, "byte_copy", 1))
    folder, of = sources[path.rpartition("/")[0]], sources[original.rpartition("/")[0]]
    index = int(Path(original).stem) - 1
    kind = next(span.what for span in of.scenes if span.first <= index <= span.last)
    scenes = (*folder.scenes, Span(kind, folder.frames, folder.frames))
    sources[folder.path] = replace(folder, frames=folder.frames + 1, scenes=scenes)
    return list(sources.values()), duplicates


def _geometries(labeled: list[LabeledPlan], plans: list[SourcePlan], copies: list[CopyPlan]) -> dict[str, Geometry]:
    layouts = {(p.device, p.width, p.height) for p in labeled}
    layouts |= {(p.device, p.width, p.height) for p in plans}
    layouts |= {(c.of.device, c.width, c.height) for c in copies}
    return {geometry_name(*layout): geometry_of(*layout) for layout in sorted(layouts)}


def _write_endofm_list(directory: Path) -> None:
    """EndoFM-pretrain's train.csv: one path and the label -1 per line."""
    folder = directory / "endofm-pretrain"
    rows = [(p.relative_to(folder).as_posix(), -1) for p in sorted(folder.rglob("*.mp4"))]
    write_bytes(folder / "train.csv", csv_text((), rows, verbatim=True).encode())
