"""Students and ways to train them, as keys of `python -m pretrain`; PROTOCOL.md says why these."""

from __future__ import annotations

STEPS = 120
SEEDS = (1, 2, 3)

STUDENTS = {
    "depth4": ("model.depth=4",),
    "width192": ("model.depth=8", "model.width=192", "model.attention_heads=3"),
}
DISTILLED = "distilled"
ALONE = "alone"
CUT = "distilled-from-cut"
TEACHER = "TEACHER"  # stands for the path of the teacher's weights
FIRST_BLOCKS = "FIRST_BLOCKS"  # for that of its first four blocks

# The teacher sees no local crop; DINOv2's loss lives on them.
METHODS = {
    DISTILLED: ("objective.kind=distill", f"distill.teacher={TEACHER}", "augment.local_crops=0"),
    ALONE: ("objective.kind=dinov2", "augment.local_crops=4"),
    CUT: (
        "objective.kind=distill",
        f"distill.teacher={TEACHER}",
        "augment.local_crops=0",
        f"init.weights={FIRST_BLOCKS}",
        "model.image_px=518",
        "warm_start.when=never",
    ),
}
# Only one student has the teacher's width and can begin with its blocks.
LAST_ARM = ("depth4", CUT)
