"""The public corpora that networks are pretrained on, and which datasets and corpora hold the same material.

The only place that knows it: the data pipeline leaves parts out by it, and the probe gives figures without what a
network may have seen.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from panendofm.atlas.mapping import load_mappings
from panendofm.runtime.errors import UserError

CORPORA = (
    "colonoscopicds",
    "ldpolypvideo",
    "ers",
    "ri-vce",
    "endofm-pretrain",
    "hyperkvasir",
    "kvasir",
    "kvasir-capsule",
)


@dataclass(frozen=True)
class Overlap:
    """`part` (a corpus, or corpus/component) holds material of `of`."""

    part: str
    of: str
    what: str


# Between pretraining corpora: the part is left out when both are in one run.
OVERLAPS_BETWEEN_CORPORA = (
    Overlap("endofm-pretrain/Colonoscopic", "colonoscopicds", "the same videos, cut into clips"),
    Overlap("endofm-pretrain/LDPolypVideo", "ldpolypvideo", "the same videos, cut into clips"),
    Overlap("endofm-pretrain/Hyper-Kvasir", "hyperkvasir", "the same videos, cut into clips"),
    Overlap("endofm-pretrain/Kvasir-Capsule", "kvasir-capsule", "the same videos, cut into clips"),
)

# Between pretraining corpora and evaluation sets (datasets of the atlas).
OVERLAPS_WITH_EVALUATION = (
    Overlap("ers", "ers", "the same dataset"),
    Overlap(
        "endofm-pretrain/Hyper-Kvasir", "hyperkvasir", "the same archive: images are stills of the same examinations"
    ),
    Overlap("endofm-pretrain/Kvasir-Capsule", "kvasir-capsule", "the same videos"),
    Overlap("endofm-pretrain/Kvasir-Capsule", "kvasircapsule-seg", "the same videos"),
    Overlap("endofm-pretrain/SUN", "sun", "the same frames"),
    Overlap("endofm-pretrain/SUN-SEG", "sun-seg", "the same frames"),
    Overlap("endofm-pretrain/LDPolypVideo", "ldpolypvideo", "the same videos, cut into clips"),
    Overlap("ldpolypvideo", "ldpolypvideo", "the same dataset"),
    Overlap("endofm-pretrain/Colonoscopic", "kumc", "PolypsSet re-uses these videos"),
    Overlap("colonoscopicds", "kumc", "PolypsSet re-uses these videos"),
    Overlap("hyperkvasir", "hyperkvasir", "the same dataset"),
    Overlap("hyperkvasir", "kvasir", "the same archive"),
    Overlap("hyperkvasir", "medico", "the same archive"),
    Overlap("hyperkvasir", "kvasir-seg", "nearly all polyp images are the same files"),
    Overlap("hyperkvasir", "kvasir-sessile", "a part of Kvasir-SEG"),
    Overlap("kvasir", "kvasir", "the same dataset"),
    Overlap("kvasir", "hyperkvasir", "the same archive"),
    Overlap("kvasir", "medico", "Medico's pictures are Kvasir's and Nerthus's and new ones"),
    Overlap("kvasir", "kvasir-seg", "polyp images of the same archive"),
    Overlap("kvasir-capsule", "kvasir-capsule", "the same dataset"),
    Overlap("kvasir-capsule", "kvasircapsule-seg", "the same videos"),
)


def same_name(a: str, b: str) -> bool:
    """Folders are named as people like: capitals don't matter."""
    return a.casefold() == b.casefold()


def nearest_name(name: str, known: list[str]) -> str | None:
    """A known name that `name` is probably a misspelling of."""
    spelled = {other.casefold(): other for other in known}
    match = difflib.get_close_matches(name.casefold(), spelled, n=1, cutoff=0.8)
    return spelled[match[0]] if match else None


def datasets_seen(corpora: list[str], key: str) -> set[str]:
    """Datasets of the atlas that share pictures with what a network was pretrained on.

    A name is a corpus, one of its components (`endofm-pretrain/SUN`) or any dataset of the atlas. `key` is what an
    error calls the setting that holds the names.
    """
    mappings = load_mappings()
    known = sorted({*CORPORA, *(overlap.part for overlap in OVERLAPS_WITH_EVALUATION), *mappings})
    seen: set[str] = set()
    for given in corpora:
        name = next((other for other in known if same_name(other, given)), None)
        if name is None:
            near = nearest_name(given, known)
            hint = f"did you mean '{near}'?" if near else f"there are: {', '.join(known)}."
            raise UserError(f"{key}: '{given}' is no corpus or dataset that is known here; {hint}")
        seen |= {o.of for o in OVERLAPS_WITH_EVALUATION if o.part == name or o.part.startswith(f"{name}/")}
        if name in mappings:
            seen |= {name, *mappings[name].overlaps}
    return seen
