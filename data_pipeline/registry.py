"""The public corpora: where their files lie, and under which licence.

To add a corpus, add an `Adapter` here, its name to panendofm/atlas/corpora.py (with what it shares with others), and
name it in a YAML file.
"""

from __future__ import annotations

import difflib

from data_pipeline.sources import Adapter, Rule
from panendofm.atlas import OVERLAPS_BETWEEN_CORPORA, OVERLAPS_WITH_EVALUATION
from panendofm.runtime.errors import UserError

_COLON, _STOMACH, _OESOPHAGUS, _SMALL_BOWEL = "colon", "stomach", "oesophagus", "small-bowel"

_KVASIR_ORGANS = {
    "dyed-lifted-polyps": _COLON,
    "dyed-resection-margins": _COLON,
    "esophagitis": _OESOPHAGUS,
    "normal-cecum": _COLON,
    "normal-pylorus": _STOMACH,
    "normal-z-line": _OESOPHAGUS,
    "polyps": _COLON,
    "ulcerative-colitis": _COLON,
}
_ENDOFM_ORGANS = {
    "colonoscopic": _COLON,
    "sun": _COLON,
    "sun-seg": _COLON,
    "ldpolypvideo": _COLON,
    "kvasir-capsule": _SMALL_BOWEL,
    "renji-colonoscope": _COLON,
    "renji-gastroscope": _STOMACH,
}
_RI_VCE_ORGANS = {"1_esophagus": _OESOPHAGUS, "2_stomach": _STOMACH, "3_small_bowel": _SMALL_BOWEL, "4_colon": _COLON}

_ADAPTERS = (
    Adapter(
        "colonoscopicds",
        "ColonoscopicDS (Mesejo 2016)",
        "unknown",
        (
            Rule(r"(?:.*/)?(?P<video>(?P<patient>[^/]+)_(?:NBI|WL))\.[^.]+", "video", _COLON),
            Rule(r"(?:.*/)?(?P<video>[^/]+)\.[^.]+", "video", _COLON),
        ),
    ),
    Adapter(
        "ldpolypvideo",
        "LDPolypVideo (Ma 2021)",
        "unknown",
        (
            Rule(r"(?:.*/)?(?:TrainValid|Test)/Images/(?P<video>[^/]+)/[^/]+", "sequence", _COLON),
            Rule(r"(?:.*/)?(?P<video>[^/]+)\.[^.]+", "video", _COLON),
        ),
    ),
    Adapter(
        "ers",
        "ERS (Cychnerski 2022)",
        "research use, on request",
        (
            Rule(r"(?:.*/)?(?P<patient>\d{4})/samples/frames/[^/]+", "image"),
            Rule(r"(?:.*/)?(?P<patient>\d{4})/(?P<video>seq_\d+)/frames/[^/]+", "sequence"),
        ),
    ),
    Adapter(
        "ri-vce",
        "RI-VCE (Charoen 2022)",
        "unknown (CC0 1.0 for the validation repository)",
        (Rule(r"(?:.*/)?(?P<patient>s\d+)/(?P<organ>[1-4]_\w+)/[^/]+", "sequence", organs=_RI_VCE_ORGANS),),
    ),
    Adapter(
        "endofm-pretrain",
        "EndoFM-pretrain (Wang 2023)",
        "unknown",
        (
            Rule(r"(?P<component>(?P<organ>[^/]+))/(?:.*/)?(?P<video>[^/]+)\.[^.]+", "video", organs=_ENDOFM_ORGANS),
            Rule(r"(?P<video>[^/]+)\.[^.]+", "video"),
        ),
    ),
    Adapter(
        "hyperkvasir",
        "HyperKvasir (Borgli 2020)",
        "CC BY 4.0",
        (
            # The segmented images are copies of the labelled polyps, with masks beside them.
            Rule(r"(?:.*/)?segmented-images/.*", "skip"),
            Rule(r"(?:.*/)?labeled-images/lower-gi-tract/.*", "image", _COLON),
            Rule(r"(?:.*/)?labeled-images/.*", "image"),
            Rule(r"(?:.*/)?unlabeled-images/.*", "image"),
            Rule(r"(?:.*/)?labeled-videos/lower-gi-tract/(?:.*/)?(?P<video>[^/]+)\.[^.]+", "video", _COLON),
            Rule(r"(?:.*/)?labeled-videos/(?:.*/)?(?P<video>[^/]+)\.[^.]+", "video"),
        ),
    ),
    Adapter(
        "kvasir",
        "Kvasir v1 and v2 (Pogorelov 2017)",
        "free use with notice",
        (Rule(r"(?:.*/)?(?P<organ>[^/]+)/[^/]+", "image", organs=_KVASIR_ORGANS),),
    ),
    Adapter(
        "kvasir-capsule",
        "Kvasir-Capsule (Smedsrud 2021)",
        "CC BY 4.0",
        (
            Rule(
                r"(?:.*/)?labelled_images/(?:.*/)?(?P<video>(?P<patient>[0-9a-f]{16}))_\d+\.[^.]+",
                "image",
                _SMALL_BOWEL,
            ),
            Rule(r"(?:.*/)?(?:un)?labelled_videos/(?:.*/)?(?P<video>(?P<patient>[^/]+))\.[^.]+", "video", _SMALL_BOWEL),
        ),
    ),
    Adapter(
        "folder",
        "any folder of videos and pictures",
        "unknown",
        (Rule(r".*", "image"), Rule(r"(?:.*/)?(?P<video>[^/]+)\.[^.]+", "video")),
    ),
)

ADAPTERS = {adapter.name: adapter for adapter in _ADAPTERS}


# Components by names that the corpora themselves publish. Any other folder may be called after a patient.
_PUBLIC_COMPONENTS = frozenset(
    {
        *_ENDOFM_ORGANS,
        "cholectriplet",
        *(o.part.partition("/")[2].lower() for o in (*OVERLAPS_BETWEEN_CORPORA, *OVERLAPS_WITH_EVALUATION)),
    }
)


def is_public_component(component: str) -> bool:
    return component.lower() in _PUBLIC_COMPONENTS


def adapter_called(name: str, corpus: str) -> Adapter:
    if name in ADAPTERS:
        return ADAPTERS[name]
    match = difflib.get_close_matches(name, ADAPTERS, n=1)
    hint = f"did you mean '{match[0]}'?" if match else f"there are: {', '.join(ADAPTERS)}."
    raise UserError(f"corpora.{corpus}.adapter: there is no adapter '{name}'; {hint}")
