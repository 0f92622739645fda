"""The size `imbalanced`: a long video of one dull place, and short ones that each show something rare.

For curation: training on these frames sees one scene a hundred times as often as each of five others.
"""

from __future__ import annotations

from fractions import Fraction

from panendofm.synthetic.plan import SourcePlan
from panendofm.synthetic.truth import Span

IMBALANCED = "imbalanced"
DULL = "colon"
RARE = ("dyed-lifted-polyps", "esophagitis", "normal-pylorus", "polyps", "ulcerative-colitis")
_DULL_FRAMES, _RARE_FRAMES = 600, 6
_FPS = Fraction(4)  # the pace at which the frames of the synthetic corpus are looked at: none is made in vain


def plan_imbalanced() -> list[SourcePlan]:
    """A video for each scene."""
    counts = {DULL: _DULL_FRAMES, **dict.fromkeys(RARE, _RARE_FRAMES)}
    return [
        SourcePlan(
            path=f"colonoscopicds/adenoma/adenoma_{number:02d}_WL.mp4",
            corpus="colonoscopicds",
            codec="h264",
            device="octagon",
            width=320,
            height=256,
            frames=frames,
            fps=_FPS,
            scenes=(Span(kind, 0, frames - 1),),
            keyframe_interval=8,
        )
        for number, (kind, frames) in enumerate(counts.items(), start=1)
    ]
