"""What is known of a moment of an operation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Annotation:
    operation: str = ""
    phase: str = ""
    step: str = ""
    action: str = ""
    instruments: tuple[str, ...] | None = None
