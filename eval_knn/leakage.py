"""Could the network have seen the evaluation images while it was trained?

Shards carry a certificate that lists the evaluation sets whose copies were kept out of them, and checkpoints and
releases carry it on. A set is recognised by its content, not by its folder's name.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from eval_knn.labelled_images import LabelledImages
from eval_knn.networks import Network


def leakage_note(network: Network, images: LabelledImages) -> dict[str, Any]:
    """`guarded` (True, False, or None for unknown) and one sentence about it."""
    name = images.root.resolve().name
    if not network.pretrained_here:
        return {"guarded": None, "note": f"{network.name} is a baseline; none of our corpora was used for it."}
    if network.certificate is None:
        return {
            "guarded": None,
            "note": f"the weights carry no leakage certificate; their training data may hold images of {name}.",
        }
    sets = network.certificate.get("guarded_sets", [])
    own = fingerprint(images)
    if any(guarded.get("fingerprint") == own for guarded in sets):
        return {"guarded": True, "note": f"copies of these images ({name}) were kept out of the training data."}
    if any(guarded.get("name") == name for guarded in sets):
        return {
            "guarded": False,
            "note": f"copies of a set called {name} were kept out of the training data, but its images were not all "
            "the same as these; figures may be too high.",
        }
    listed = ", ".join(sorted(str(guarded.get("name")) for guarded in sets)) or "no set at all"
    return {
        "guarded": False,
        "note": f"the training data was NOT guarded against {name} (only against {listed}); figures may be too high.",
    }


def fingerprint(images: LabelledImages) -> str:
    """The checksum by which a certificate names a set: contents and file names, unreadable images included."""
    records = [*images.records, *images.skipped]
    lines = sorted(f"{record.sha256}  {Path(record.name).name}\n" for record in records)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
