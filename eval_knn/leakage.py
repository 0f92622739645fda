"""Could the network have seen the evaluation images while it was trained?

Shards carry a certificate that lists the evaluation sets whose copies were kept out of them, and checkpoints and
releases carry it on. A set is recognized by its content, not by its folder's name.
"""

from __future__ import annotations

from panendofm.atlas import LabeledImages
from panendofm.backbone.networks import Network
from panendofm.records.evaluation import LeakageNote
from panendofm.records.shards import fingerprint


def leakage_note(network: Network, images: LabeledImages) -> LeakageNote:
    """Whether these images were kept out, and one sentence about it."""
    name = images.root.resolve().name
    if network.baseline:
        return LeakageNote(None, f"{network.name} is a baseline; none of our corpora was used for it.")
    if network.certificate is None:
        return LeakageNote(
            None, f"the weights carry no leakage certificate; their training data may hold images of {name}."
        )
    sets = network.certificate.guarded_sets
    # Unreadable images are part of a set too: the guard has counted them.
    own = fingerprint((record.sha256, record.name) for record in [*images.records, *images.skipped])
    if any(guarded.fingerprint == own for guarded in sets):
        return LeakageNote(True, f"copies of these images ({name}) were kept out of the training data.")
    if any(guarded.name == name for guarded in sets):
        return LeakageNote(
            False,
            f"copies of a set called {name} were kept out of the training data, but its images were not all "
            "the same as these; metrics may be too high.",
        )
    listed = ", ".join(sorted(guarded.name for guarded in sets)) or "no set at all"
    return LeakageNote(
        False, f"the training data was NOT guarded against {name} (only against {listed}); metrics may be too high."
    )
