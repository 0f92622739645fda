"""The size `imbalanced`: videos of plain colon, in each of which something rare shows for a moment.

For curation: training on these frames sees one dull kind of scene a hundred times as often as each of five others.
"""

from __future__ import annotations

from fractions import Fraction

from data_pipeline.synthesize.plan import SourcePlan
from data_pipeline.synthesize.randomness import generator
from data_pipeline.synthesize.truth import Span

IMBALANCED = "imbalanced"
DULL = "colon"
RARE = ("dyed-lifted-polyps", "esophagitis", "normal-pylorus", "polyps", "ulcerative-colitis")
# Of each video; there are as many videos as rare scenes, so that the dull one is in 100 times as many frames as each.
_DULL_FRAMES, _RARE_FRAMES = 120, 6
_FPS = Fraction(4)  # the pace at which the frames of the synthetic corpus are looked at: none is made in vain


def plan_imbalanced(seed: int) -> list[SourcePlan]:
    """A video per rare scene, which shows it once; what comes before and after is one place."""
    plans = []
    for number, rare in enumerate(RARE):
        first = int(generator(seed, "plan", IMBALANCED, number).integers(20, _DULL_FRAMES - 20))
        last = first + _RARE_FRAMES - 1
        plans.append(
            SourcePlan(
                path=f"colonoscopicds/adenoma/adenoma_{number + 1:02d}_WL.mp4",
                corpus="colonoscopicds",
                codec="h264",
                device="octagon",
                width=320,
                height=256,
                frames=_DULL_FRAMES + _RARE_FRAMES,
                fps=_FPS,
                scenes=(
                    Span(DULL, 0, first - 1),
                    Span(rare, first, last),
                    Span(DULL, last + 1, _DULL_FRAMES + _RARE_FRAMES - 1),
                ),
                keyframe_interval=8,
            )
        )
    return plans
