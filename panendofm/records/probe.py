"""The folder of one linear probing: what lies in it, for the stages that read or link it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from panendofm.runtime.files import safe_name


@dataclass(frozen=True)
class ProbeFolder:
    """The paths of one probing's results."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def log(self) -> Path:
        return self.path / "log.txt"

    @property
    def results(self) -> Path:
        """Written when all is done."""
        return self.path / "results.json"

    @property
    def page(self) -> Path:
        return self.path / "index.html"

    @property
    def features(self) -> Path:
        """Extracted features, unless the config names another place."""
        return self.path / "features"

    def head(self, network: str, task: str) -> Path:
        return self.path / "heads" / safe_name(network) / f"{task}.safetensors"

    def truth(self, task: str) -> Path:
        """The test side of a task with one answer an image, as `challenge score` reads it."""
        return self.path / "test" / f"{task}.csv"

    @property
    def table(self) -> Path:
        """The main table as Markdown."""
        return self.path / "table.md"
