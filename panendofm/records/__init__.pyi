from . import curation, documents, evaluation, metrics, probe, release, run, shards

__all__ = [
    "curation",
    "documents",
    "evaluation",
    "metrics",
    "probe",
    "release",
    "run",
    "shards",
]
