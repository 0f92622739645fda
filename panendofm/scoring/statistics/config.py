"""The keys of a bootstrap."""

from __future__ import annotations

from dataclasses import dataclass

from panendofm.runtime.config import option


@dataclass
class BootstrapConfig:
    """How the intervals are drawn: whole groups (near-duplicates, one patient, one video), not single images."""

    replicates: int = option("Bootstrap replicates; 0 leaves the intervals out.", 1000, low=0, was="samples")
    confidence: float = option("Share of the replicates inside an interval.", 0.95, above=0, below=1)
    seed: int = option("Seed of the replicates.", 0)
