"""The keys of `python -m launch run`."""

from __future__ import annotations

from dataclasses import dataclass

from panendofm.runtime.config import option, required


@dataclass
class PartConfig:
    """One stage of the chain: its own config file, and what differs from it."""

    config: str | None = option("The stage's YAML file; null: its defaults.", None)
    set: list[str] = option("key=value words for the stage.", [])


@dataclass
class ChainConfig:
    """From corpora on disk to a table of probes. Folders between the stages are set by the chain."""

    dir: str = required("Folder of all that the chain makes: shards, run, release, probe.")
    shard: PartConfig = option("Preparing the data.", PartConfig())
    pretrain: PartConfig = option("Training.", PartConfig())
    watch: PartConfig = option("The kNN monitor.", PartConfig())
    export: list[str] = option("Further keys for panendofm export, such as license=apache-2.0.", [])
    probe: PartConfig = option("Linear probes.", PartConfig())
