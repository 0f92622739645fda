"""Which benchmarks `python -m benchmarks` runs, in which order: name → what it answers."""

from __future__ import annotations

CATALOG = {
    "step": "a training step: share of the machine's matrix product, and against the plain way",
    "peer": "a whole training against lightly-train",
    "loader": "images of one core that the loader delivers, and how long a training waits for it",
    "augment": "crops of an image against torchvision's transforms",
    "order": "the training order: start, batch, border of an epoch",
    "checkpoint": "how long a checkpoint holds training up",
    "data_pipeline": "a unit of sharding against decoding alone",
    "screens": "text that is found, and images without text that are spared",
    "images": "an image hashed, cleaned and guarded",
    "knn": "kNN scores against FAISS, torch and scikit-learn",
    "challenge": "scores of a challenge with 1,000 replicates",
    "vqa": "scores of 10,000 questions with 1,000 replicates",
    "start": "how long commands take to answer, and a fresh clone to its first shard and step",
    "tests": "the time of the tests",
}
