"""The kNN search of this machine: the reference's class scores, and every neighbor against a search by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import faiss
import numpy as np

from eval_knn import class_scores
from launch.doctor.rows import Row, judged

_GOLDEN = Path(__file__).resolve().parent / "golden" / "knn_8class.npz"
_KS = (10, 20, 100, 200)
_TOLERANCE = 1e-5
_QUERIES, _GALLERY, _WIDTH, _K = 200, 5_000, 64, 20
_REMEDY = "install the locked version of faiss, and report it with doctor.json"


def check_neighbors() -> Iterator[Row]:
    gpus = int(faiss.get_num_gpus()) if hasattr(faiss, "StandardGpuResources") else 0
    where = f"FAISS on {gpus} GPUs" if gpus else "FAISS on the CPU"
    error = _golden_error()
    wrong = _wrong_rows()
    found = f"{where}: golden scores within {error:.0e}, {wrong} neighbors wrong"
    yield judged("kNN", error <= _TOLERANCE and not wrong, found, _REMEDY, error=error, wrong=wrong, gpus=gpus)


def _golden_error() -> float:
    with np.load(_GOLDEN) as data:
        scored = class_scores(data["test_features"], data["train_features"], data["train_labels"], 8, _KS)
        return max(float(np.abs(scored.scores[k] - data[f"probas_k{k}"]).max()) for k in _KS)


def _wrong_rows() -> int:
    """Many more rows than the golden file's, so that the search goes over several blocks; some rows are there twice."""
    random = np.random.default_rng(0)
    gallery = random.normal(size=(_GALLERY, _WIDTH)).astype(np.float32)
    gallery[_GALLERY // 2 :: 7] = gallery[: len(gallery[_GALLERY // 2 :: 7])]
    queries = random.normal(size=(_QUERIES, _WIDTH)).astype(np.float32)
    labels = np.zeros(_GALLERY, np.int64)
    scored = class_scores(queries, gallery, labels, 1, (_K,))
    exact = _unit(queries) @ _unit(gallery).T  # [Q, G]
    expected = np.argsort(-exact.round(9), axis=1, kind="stable")[:, :_K]
    # Within the first k their order may differ by rounding: it is the set that votes.
    return int((np.sort(scored.neighbors.rows, axis=1) != np.sort(expected, axis=1)).sum())


def _unit(rows: np.ndarray) -> np.ndarray:
    wide = rows.astype(np.float64)
    scaled: np.ndarray = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    return scaled
