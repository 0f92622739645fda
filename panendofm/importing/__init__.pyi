from .shard_set import import_shards, imported_folder

__all__ = ["import_shards", "imported_folder"]
