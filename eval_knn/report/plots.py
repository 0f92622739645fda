"""Plots of a result: neighbors of queries (HTML), confusion matrix, 2-D map of the features, training curve."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # files only: works without a screen
import numpy as np
from matplotlib import pyplot
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from eval_knn.evaluator import Evaluator, Result, shown_k
from eval_knn.report.gallery_page import write_gallery_page
from panendofm.records.evaluation import KnnDocument, read_evaluations
from panendofm.records.run import RunFolder
from panendofm.runtime.files import atomic_file, make_directory

# A map of more points is neither readable nor quick.
_MAP_IMAGES = 1500
_ITERATIONS = 500  # of t-SNE: twice as many move the points by little (divergence 0.63 to 0.61 on 640 of them)


def draw(result: Result, evaluator: Evaluator, folder: Path, run: RunFolder | None = None) -> Path:
    """Write all plots into a folder and return it."""
    make_directory(folder)
    k = str(shown_k(evaluator.config))
    classes, name = evaluator.images.class_names, result.document.checkpoint
    confusion = np.array(result.document.k[k].confusion)
    _save(confusion_figure(confusion, classes, f"{name}, k = {k}"), folder / "confusion.png")
    _save(map_figure(result.features, evaluator.images.labels, classes, name), folder / "map.png")
    parts = ["confusion.png", "map.png"]
    documents = read_evaluations(run) if run is not None else []
    if len(documents) > 1:
        _save(curve_figure(documents, k), folder / "curve.png")
        parts.append("curve.png")
    write_gallery_page(
        folder / "gallery.html", result, evaluator, [folder / part for part in parts[1:]]
    )  # the page draws the first by itself
    return folder


def _save(figure: Figure, path: Path) -> None:
    with atomic_file(path) as stream:
        figure.savefig(stream, format="png", dpi=110, bbox_inches="tight")
    pyplot.close(figure)


def confusion_figure(confusion: NDArray[np.integer], classes: list[str], title: str) -> Figure:
    """Shares of each true class (rows); counts are written in while they are legible."""
    total = confusion.sum(axis=1, keepdims=True)
    shares = confusion / np.maximum(total, 1)
    side = max(4.5, 0.55 * len(classes) + 2)
    figure, axes = pyplot.subplots(figsize=(side, side))
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(classes)), classes, rotation=60, ha="right")
    axes.set_yticks(range(len(classes)), classes)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    axes.set_title(title)
    if len(classes) <= 25:
        for (row, column), count in np.ndenumerate(confusion):
            if count:
                color = "white" if shares[row, column] > 0.5 else "black"
                axes.text(column, row, str(count), ha="center", va="center", color=color, fontsize=8)
    return figure


def map_figure(features: NDArray[np.floating], labels: NDArray[np.int64], classes: list[str], title: str) -> Figure:
    """The features in two dimensions (t-SNE of their first 50 principal components), colored by class."""
    shown = np.sort(np.random.default_rng(0).permutation(len(features))[:_MAP_IMAGES])
    points = features[shown].astype(np.float64)
    flat = two_dimensions(points)
    figure, axes = pyplot.subplots(figsize=(8, 6))
    colors = pyplot.get_cmap("tab10" if len(classes) <= 10 else "nipy_spectral")
    for number, name in enumerate(classes):
        mine = labels[shown] == number
        color = colors(number if len(classes) <= 10 else number / len(classes))
        axes.scatter(flat[mine, 0], flat[mine, 1], s=9, color=color, label=name)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(f"{title}: {len(shown)} images, t-SNE")
    axes.legend(bbox_to_anchor=(1.01, 1), loc="upper left", fontsize=8, frameon=False, ncols=1 + len(classes) // 30)
    return figure


def two_dimensions(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """t-SNE with a fixed seed; PCA alone for sets that are too small for it, or whose points are all one."""
    if len(points) < 10 or float(points.std(axis=0).max()) < 1e-9:
        centered = points - points.mean(axis=0)
        flat = centered @ np.linalg.svd(centered, full_matrices=False)[2][:2].T
        return np.pad(flat, ((0, 0), (0, 2 - flat.shape[1])))
    reduced = PCA(min(50, *points.shape), random_state=0).fit_transform(points)
    perplexity = min(30.0, (len(points) - 1) / 3)
    return np.asarray(
        TSNE(2, perplexity=perplexity, init="pca", max_iter=_ITERATIONS, random_state=0).fit_transform(reduced)
    )


def curve_figure(documents: list[KnnDocument], k: str) -> Figure:
    """Top-1 with its interval, top-5 and RankMe over training."""
    steps = [number if d.step is None else d.step for number, d in enumerate(documents)]
    figure, (above, below) = pyplot.subplots(2, 1, figsize=(7, 6), sharex=True, height_ratios=[2, 1])
    top1 = [d.k[k].top1 for d in documents]
    above.plot(steps, top1, "o-", label=f"top-1, k = {k}")
    if all(d.k[k].interval("top1") for d in documents):
        low, high = np.array([d.k[k].interval("top1") for d in documents]).T
        above.fill_between(steps, low, high, alpha=0.2, label="interval")
    published = "100" if all("100" in d.k for d in documents) else k
    above.plot(steps, [d.k[published].top5 for d in documents], "s--", label=f"top-5, k = {published}")
    above.set_ylabel("kNN accuracy")
    above.legend(frameon=False)
    above.grid(alpha=0.3)
    below.plot(steps, [d.rankme for d in documents], "o-", color="tab:green")
    below.set_ylabel("RankMe")
    below.set_xlabel("step")
    below.grid(alpha=0.3)
    return figure
