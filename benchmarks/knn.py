"""How fast is kNN scoring? Ours beside the obvious ways, as ratios measured in one run.

    python benchmarks/knn.py                      Kvasir's size: 4,000 queries, 4,000 gallery rows, 1,024 dimensions
    python benchmarks/knn.py --size atlas         20,000 queries, 400,000 gallery rows; 1.7 GB of features
    python benchmarks/knn.py --size cache         a second `python -m eval_knn` on the same weights

Every method gets unit rows and returns class scores at k = 10, 20, 100, 200. Methods take turns, `--rounds` times, and
the best time of each counts. Each method runs in a process of its own, so that its peak memory beyond the features is
its own too. FAISS's own search and scikit-learn, which are slow at the atlas's size, get `--few-queries` of the
queries, and ours is measured on just these as well: every ratio is between equal work.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import Figure, Size

KS = (10, 20, 100, 200)
CLASSES = 8
SIZES = {"kvasir": (4_000, 4_000), "atlas": (20_000, 400_000)}
SEED = 0

Floats = NDArray[np.float32]
Scores = dict[int, NDArray[np.floating]]
# By method and number of queries: seconds, processor seconds, GB beyond the features.
Times = dict[tuple[str, int], tuple[float, float, float]]


def unit_features(rows: int, width: int, seed: int) -> tuple[Floats, NDArray[np.int64]]:
    """Rows around one center per class: neighbors agree about as often as with a trained network."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, rows)
    centers = np.random.default_rng(SEED).standard_normal((CLASSES, width), dtype=np.float32)
    features = np.empty((rows, width), np.float32)
    for start in range(0, rows, 20_000):
        part = labels[start : start + 20_000]
        block = random.standard_normal((len(part), width), dtype=np.float32) * 4 + centers[part]
        features[start : start + len(part)] = block / np.linalg.norm(block, axis=1, keepdims=True)
    return features, labels


def ours(queries: Floats, gallery: Floats, labels: NDArray[np.int64]) -> Scores:
    from eval_knn.search.neighbors import nearest
    from eval_knn.search.vote import vote

    return dict(vote(nearest(queries, gallery, max(KS)), labels, CLASSES, KS, 0.07))


def torch_topk(queries: Floats, gallery: Floats, labels: NDArray[np.int64]) -> Scores:
    """The reference's way: a matrix product with the whole gallery and top-k, 256 queries at a time, then the vote."""
    import torch

    rows, classes = torch.from_numpy(gallery).T, torch.from_numpy(labels)
    parts: dict[int, list[Any]] = {k: [] for k in KS}
    for start in range(0, len(queries), 256):
        similarity, found = (torch.from_numpy(queries[start : start + 256]) @ rows).topk(max(KS), dim=1)
        weights = (similarity / 0.07).softmax(dim=1)
        votes = torch.nn.functional.one_hot(classes[found], CLASSES) * weights[..., None]  # [256, 200, C]
        for k in KS:
            parts[k].append(votes[:, :k].sum(dim=1))
    return {k: torch.cat(parts[k]).numpy() for k in KS}


def faiss_flat(queries: Floats, gallery: Floats, labels: NDArray[np.int64]) -> Scores:
    """FAISS's own exact search."""
    import faiss

    from eval_knn.search.neighbors import Neighbors
    from eval_knn.search.vote import vote

    similarity, rows = faiss.knn(queries, gallery, max(KS), metric=faiss.METRIC_INNER_PRODUCT)
    return dict(vote(Neighbors(rows, similarity), labels, CLASSES, KS, 0.07))


def scikit_learn(queries: Floats, gallery: Floats, labels: NDArray[np.int64]) -> Scores:
    """KNeighborsClassifier (brute force, all cores) with the same weights; it votes for one k, the largest."""
    from sklearn.neighbors import KNeighborsClassifier

    def weights(distances: NDArray[np.floating]) -> NDArray[np.floating]:
        logits = (1 - distances**2 / 2) / 0.07  # unit rows: |a - b|² = 2 - 2 a·b
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        result: NDArray[np.floating] = exponentials / exponentials.sum(axis=1, keepdims=True)
        return result

    model = KNeighborsClassifier(max(KS), algorithm="brute", weights=weights, n_jobs=-1).fit(gallery, labels)
    return {max(KS): model.predict_proba(queries)}


METHODS: dict[str, Callable[[Floats, Floats, NDArray[np.int64]], Scores]] = {
    "ours": ours,
    "torch matmul + topk": torch_topk,
    "FAISS flat": faiss_flat,
    "scikit-learn": scikit_learn,
}


SLOW = ("FAISS flat", "scikit-learn")


def measure(folder: str, name: str, count: int, answer: Any) -> None:
    """In a process of its own: seconds, processor seconds, peak memory beyond the features, and the scores."""
    gallery = np.load(Path(folder) / "gallery.npy")
    queries = np.load(Path(folder) / "queries.npy")[:count]
    labels = np.load(Path(folder) / "labels.npy")
    METHODS[name](queries[:64], gallery[:2000], labels[:2000])  # imports and thread pools are not what is measured
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, processor = time.perf_counter(), time.process_time()
    scores = METHODS[name](queries, gallery, labels)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    beyond = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024**2
    answer.send((wall, processor, beyond, scores[max(KS)]))


def compare(size: str, width: int, rounds: int, names: list[str], few_queries: int) -> None:
    """Print a table; each ratio is to ours with the same number of queries."""
    query_count, gallery_count = SIZES[size]
    load = os.getloadavg()[0]
    best, scores = best_times(query_count, gallery_count, width, rounds, names, few_queries)
    print(f"{query_count:,} queries x {gallery_count:,} gallery rows x {width}, float32, k up to {max(KS)}; ", end="")
    print(f"{os.cpu_count()} cores, load before {load:.1f}, best of {rounds}")
    columns = ("queries", "seconds", "cpu seconds", "ratio", "cpu ratio", "GB beyond features", "max difference")
    print(f"{'method':22}" + "".join(f"  {column}" for column in columns))
    for (name, count), (wall, processor, beyond) in best.items():
        reference = best["ours", count]
        values = (f"{count:,}", f"{wall:.2f}", f"{processor:.2f}", f"{wall / reference[0]:.2f}")
        values += (f"{processor / reference[1]:.2f}", f"{beyond:.2f}")
        values += (f"{np.abs(scores[name, count] - scores['ours', count]).max():.1e}",)
        cells = "".join(f"  {value:>{len(column)}}" for value, column in zip(values, columns, strict=True))
        print(f"{name:22}{cells}")
    for count, (ratio, fastest) in ours_beside_fastest(best).items():
        print(f"ours / fastest, {count:,} queries: {ratio:.2f} (the fastest other is {fastest}, by cpu seconds)")


def best_times(
    query_count: int, gallery_count: int, width: int, rounds: int, names: list[str], few_queries: int
) -> tuple[Times, dict[tuple[str, int], NDArray[np.floating]]]:
    """By method and number of queries: the best times with the largest memory, and the scores."""
    plan = [(name, min(query_count, few_queries) if name in SLOW else query_count) for name in names]
    plan = list(dict.fromkeys([*(("ours", count) for _, count in plan), *plan]))
    best: Times = {}
    scores: dict[tuple[str, int], NDArray[np.floating]] = {}
    with tempfile.TemporaryDirectory() as folder:
        _store_features(Path(folder), query_count, gallery_count, width)
        for _ in range(rounds):
            for row in plan:
                wall, processor, beyond, scores[row] = _in_own_process(folder, *row)
                known = best.get(row, (float("inf"), float("inf"), 0.0))
                best[row] = (min(known[0], wall), min(known[1], processor), max(known[2], beyond))
    return best, scores


def ours_beside_fastest(best: Times) -> dict[int, tuple[float, str]]:
    """By number of queries: how fast ours is next to the fastest of the others, whose name comes with it.

    1 or more is at least as fast.
    """
    found = {}
    for count in sorted({count for name, count in best if name != "ours"}):
        times = {name: best[name, queries][1] for name, queries in best if queries == count and name != "ours"}
        fastest = min(times, key=times.__getitem__)
        found[count] = (times[fastest] / best["ours", count][1], fastest)
    return found


def figures(size: Size) -> list[Figure]:
    sizes = ((600, 600), (4_000, 4_000)) if size == "small" else ((600, 600), (4_000, 4_000), (2_000, 400_000))
    found = []
    for queries, gallery in sizes:
        best, _ = best_times(queries, gallery, 1024, 2 if size == "small" else 3, list(METHODS), queries)
        ratio, fastest = ours_beside_fastest(best)[queries]
        name = f"{queries:,} queries, gallery of {gallery:,}: times as fast"
        found.append(Figure(name, ratio, "×", f"the fastest other, {fastest}, in CPU seconds", 0.95, "higher"))
    return found


def _store_features(folder: Path, query_count: int, gallery_count: int, width: int) -> None:
    gallery, labels = unit_features(gallery_count, width, SEED + 1)
    queries, _ = unit_features(query_count, width, SEED + 2)
    for name, array in (("gallery", gallery), ("queries", queries), ("labels", labels)):
        np.save(folder / f"{name}.npy", array)


def _in_own_process(folder: str, name: str, count: int) -> tuple[float, float, float, NDArray[np.floating]]:
    context = multiprocessing.get_context("spawn")
    ours_end, theirs = context.Pipe(duplex=False)
    process = context.Process(target=measure, args=(folder, name, count, theirs))
    process.start()
    theirs.close()
    answer: tuple[float, float, float, NDArray[np.floating]] = ours_end.recv()
    process.join()
    return answer


def second_run() -> None:
    """Two runs of the command on a ViT-S and 400 images; the import of the package alone beside them."""
    import torch
    from PIL import Image

    from panendofm.backbone import VisionTransformer, vit_config

    with tempfile.TemporaryDirectory() as folder:
        random = np.random.default_rng(SEED)
        for label in range(CLASSES):
            (Path(folder) / "data" / f"class{label}").mkdir(parents=True)
            for number in range(50):
                pixels = random.integers(0, 256, (64, 80, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(Path(folder) / "data" / f"class{label}" / f"{number}.jpg")
        keys = [f"data.path={folder}/data", f"cache={folder}/cache", f"out={folder}/out"]
        weights = f"{folder}/vit_small.pt"
        torch.save(VisionTransformer(vit_config("vit_small_patch14")).state_dict(), weights)
        runs = {
            "first run": [sys.executable, "-m", "eval_knn", weights, *keys],
            "import only": [sys.executable, "-c", "import eval_knn.__main__"],
            "second run": [sys.executable, "-m", "eval_knn", weights, *keys],
        }
        spent = {}
        for name, words in runs.items():
            wall, processor = time.perf_counter(), _children_cpu_seconds()
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
            spent[name] = (time.perf_counter() - wall, _children_cpu_seconds() - processor)
            print(f"{name}: {spent[name][0]:.2f} s, {spent[name][1]:.2f} cpu seconds")
        wall, processor = (b - a for a, b in zip(spent["import only"], spent["second run"], strict=True))
        print(f"second run beyond the import: {wall:.2f} s, {processor:.2f} cpu seconds; load {os.getloadavg()[0]:.1f}")


def _children_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=[*SIZES, "cache"], default="kvasir")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queries", type=int, help="other than the size's number of queries")
    parser.add_argument("--gallery", type=int, help="other than the size's number of gallery rows")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--few-queries", type=int, default=4000, help="most queries that slow methods are given")
    options = parser.parse_args()
    if options.size == "cache":
        second_run()
        return
    queries, gallery = SIZES[options.size]
    SIZES[options.size] = (options.queries or queries, options.gallery or gallery)
    methods = ["ours", *(name for name in options.methods if name != "ours")]
    compare(options.size, options.width, options.rounds, methods, options.few_queries)


if __name__ == "__main__":
    main()
