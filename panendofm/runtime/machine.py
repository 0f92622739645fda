"""What machine this is, as far as it may be published: never its name."""

from __future__ import annotations

import platform
from pathlib import Path


def processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return model or platform.machine() or "unknown"
