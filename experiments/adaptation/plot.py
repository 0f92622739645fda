"""The curves of the tuning seed, as an image for the README."""

from __future__ import annotations

from pathlib import Path

from experiments.adaptation.arms import ARMS, TUNING_SEED
from experiments.adaptation.findings import Quarter, best_quarter, curve, halves_of, read_results, read_start
from experiments.adaptation.training_sets import DEFAULT
from panendofm.runtime.files import atomic_file

IMAGE = Path(__file__).resolve().parents[2] / "docs" / "images" / "adaptation.png"
_MEASURES = {"knn": "kNN top-1, k = 20", "probe": "linear probe"}


def draw_curves(results: Path, image: Path = IMAGE) -> None:
    """The arm with the highest score, both primary metrics, with bands of 95%."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    start = read_start(results)
    halves = halves_of(start)
    curves = {arm: curve(runs[0], start, halves) for arm, runs in read_results(results, DEFAULT, [TUNING_SEED]).items()}
    arm = max(curves, key=lambda name: curves[name][best_quarter(curves[name])].score)
    figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
    for measure, title in _MEASURES.items():
        _draw(axes, curves[arm], measure, title)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xlabel("presentations of 2,500 unlabeled images")
    axes.set_ylabel("points above the start")
    axes.set_title(f"Kvasir v1 while released weights adapt ({ARMS[arm].title})", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    with atomic_file(image) as stream:
        figure.savefig(stream, format="png", dpi=130, metadata={"Software": None})
    plt.close(figure)


def _draw(axes, quarters: list[Quarter], measure: str, title: str) -> None:  # type: ignore[no-untyped-def]
    found = [getattr(quarter, measure) for quarter in quarters]
    x = [0, *(quarter.presentations for quarter in quarters)]
    (line,) = axes.plot(x, [0, *(100 * one.value for one in found)], marker="o", markersize=4, label=title)
    low, high = ([0, *(100 * getattr(one, end) for one in found)] for end in ("low", "high"))
    axes.fill_between(x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
