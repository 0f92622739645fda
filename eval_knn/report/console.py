"""What the console shows of results."""

from __future__ import annotations

from eval_knn.evaluator import evaluation_of
from eval_knn.selection import Choice, Stop, paired_bootstrap
from panendofm.records.evaluation import METRICS, KnnDocument
from panendofm.runtime.console import say, table


def show_comparison(documents: list[KnnDocument], k: int) -> None:
    """One row per network, at the k that selects; top-5 at the published k = 100 when it was computed."""
    published = "100" if all("100" in document.k for document in documents) else str(k)
    confidence = 100 * documents[0].interval_confidence
    columns = ["network", "step", f"top-1 k={k}", f"{confidence:g}% interval", f"top-5 k={published}"]
    columns += [f"bal. acc. k={k}", f"macro-F1 k={k}", f"MCC k={k}", "RankMe", "alpha-ReQ", "features"]
    rows = []
    for document in documents:
        at_k = document.k[str(k)]
        interval = at_k.interval("top1")
        rows.append(
            [
                document.path or document.checkpoint,
                "" if document.step is None else str(document.step),
                f"{at_k.top1:.4f}",
                "" if interval is None else f"{interval[0]:.4f}-{interval[1]:.4f}",
                f"{document.k[published].top5:.4f}",
                f"{at_k.balanced_accuracy:.4f}",
                f"{at_k.macro_f1:.4f}",
                f"{at_k.mcc:.4f}",
                f"{document.rankme:.1f}",
                "" if document.alpha_req is None else f"{document.alpha_req:.2f}",
                document.features,
            ]
        )
    data = documents[0].data
    how = ", leave one group out" if data.leave_one_group_out else ""
    how += ", images cleaned" if data.clean else ""
    title = f"kNN on {data.path}: {data.queries} queries, {data.gallery} gallery images{how}"
    table(title, columns, rows)


def show_cleaning(cleaned: list[KnnDocument], uncleaned: list[KnnDocument], k: int) -> None:
    """What the networks owe to what is beside the tissue: each by both ways of reading, and the difference."""
    confidence = cleaned[0].interval_confidence
    columns = ["network", f"top-1 k={k} cleaned", "as they came", "difference", f"{100 * confidence:g}% interval"]
    columns.append("features")
    rows = []
    for clean, raw in zip(cleaned, uncleaned, strict=True):
        # The same queries in the same split, so that they are compared one by one.
        difference, low, high = paired_bootstrap(evaluation_of(clean), evaluation_of(raw), f"top1_k{k}", confidence)
        values = [f"{document.k[str(k)].top1:.4f}" for document in (clean, raw)]
        name = clean.path or clean.checkpoint
        rows.append([name, *values, f"{difference:+.4f}", f"{low:+.4f} to {high:+.4f}", clean.features])
    table("images cleaned as training frames are, and as they came", columns, rows)


def show_details(document: KnnDocument, k: int) -> None:
    """All k, then the recall of each class."""
    rows = []
    for k_text, at_k in document.k.items():
        used = at_k.neighbors
        name = k_text if used == int(k_text) else f"{k_text} (gallery has {used})"
        values = [getattr(at_k, metric) for metric in METRICS]
        rows.append([name, *(f"{value:.4f}" for value in values)])
    table(f"{document.checkpoint} at each k", ["k", "top-1", "top-5", "bal. acc.", "macro-F1", "MCC"], rows)
    recalls = document.k[str(k)].recall
    confusion = document.k[str(k)].confusion
    lines = []
    for number, (name, value) in enumerate(recalls.items()):
        wrong = {other: count for other, count in enumerate(confusion[number]) if other != number and count}
        most = max(wrong, key=lambda other: wrong[other], default=None)
        mistaken = "" if most is None else f"{list(recalls)[most]} ({wrong[most]})"
        lines.append(
            [name, "not evaluable" if value is None else f"{value:.4f}", str(sum(confusion[number])), mistaken]
        )
    table(f"recall of each class at k={k}", ["class", "recall", "queries", "most often taken for"], lines)
    if document.features_tried:
        tried = sorted(document.features_tried.items(), key=lambda item: -item[1])
        table(
            "top-1 within the gallery, by which features were chosen",
            ["features", "top-1"],
            [[name, f"{value:.4f}"] for name, value in tried],
        )
    say(f"leakage: {document.leakage.note}")


def show_choice(choice: Choice, stop: Stop) -> None:
    say(f"best: {choice.evaluation.checkpoint}: {choice.why}")
    for other in choice.comparisons:
        say(
            f"  against the {other.role} ({other.checkpoint}): {other.difference:+.4f} "
            f"(interval {other.low:+.4f} to {other.high:+.4f}), {other.verdict}"
        )
    say(f"stopping: {stop.why}")
