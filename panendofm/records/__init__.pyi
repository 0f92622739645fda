from . import curation, documents, evaluation, metrics, probe, release, run, shard_tars, shards

__all__ = [
    "curation",
    "documents",
    "evaluation",
    "metrics",
    "probe",
    "release",
    "run",
    "shard_tars",
    "shards",
]
