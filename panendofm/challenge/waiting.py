"""What of the log waits for whom."""

from __future__ import annotations

from panendofm.challenge.files.annotations import Act, Log


def next_step(act: Act) -> str:
    """Of an act that no later one has used."""
    if act.step == "independent" and not act.mask:
        return "merge"
    return "arbitration" if act.decision == "arbitrate" else "review"


def candidates_waiting(log: Log, step: str) -> list[Act]:
    """The acts that wait for this step, in the order of the log."""
    used = {source for act in log.acts for source in act.sources}
    return [act for act in log.acts if act.step != "review" and act.serial not in used and next_step(act) == step]
