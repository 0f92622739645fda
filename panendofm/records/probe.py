"""The folder of one linear probing: what lies in it, for the stages that read or link it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from panendofm.records.folder import Inside
from panendofm.runtime.files import safe_name


@dataclass(frozen=True)
class ProbeFolder:
    """The paths of one probing's results."""

    path: Path

    config = Inside("config.yaml")
    log = Inside("log.txt")
    results = Inside("results.json")  # written when all is done
    page = Inside("index.html")
    features = Inside("features")  # extracted features, unless the config names another place

    def head(self, network: str, task: str) -> Path:
        return self.path / "heads" / safe_name(network) / f"{task}.safetensors"

    def truth(self, task: str) -> Path:
        """The test side of a task with one answer an image, as `challenge score` reads it."""
        return self.path / "test" / f"{task}.csv"

    table = Inside("table.md")  # the main table as Markdown
