"""The keys of a split, and what counts as a near-duplicate."""

from __future__ import annotations

from dataclasses import dataclass

from panendofm.runtime.config import option
from panendofm.runtime.errors import UserError

# Re-encoded or resized copies differ in fewer than 20 of the 256 bits. Frames of one scene, a moment apart, differ in
# up to about 50 (looked at on HyperKvasir, where no ids tell that they belong together), other scenes in 52 and more.
NEAR_DUPLICATE_BITS = 48


@dataclass(frozen=True)
class SplitConfig:
    train: float = option("Share of the images for training.", 0.75, above=0, below=1)
    validation: float = option("Share for choosing heads and stopping.", 0.10, above=0, below=1)
    test: float = option("Share for the figures.", 0.15, above=0, below=1)
    seed: int = option("Another seed gives another split.", 0)

    def check(self) -> None:
        if abs(sum(self.shares) - 1) > 1e-6:
            raise UserError(f"split: train, validation and test must add up to 1, not {self.shares}.")

    @property
    def shares(self) -> tuple[float, float, float]:
        return self.train, self.validation, self.test
