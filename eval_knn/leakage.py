"""Could the network have seen the evaluation images while it was trained?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eval_knn.networks import Network


def leakage_note(network: Network, data: Path) -> dict[str, Any]:
    """`guarded` (True, False, or None for unknown) and one sentence about it."""
    name = data.resolve().name
    if not network.pretrained_here:
        return {"guarded": None, "note": f"{network.name} is a baseline; none of our corpora was used for it."}
    certificate = network.certificate
    if certificate is None:
        return {
            "guarded": None,
            "note": f"the weights carry no leakage certificate: whether their training data held images of {name} is "
            "not known.",
        }
    guarded = guarded_sets(certificate)
    if name in guarded:
        return {"guarded": True, "note": f"the training data was guarded against near-duplicates of {name}."}
    listed = ", ".join(sorted(guarded)) or "no set at all"
    return {
        "guarded": False,
        "note": f"the training data was NOT guarded against {name} (only against {listed}); figures may be too high.",
    }


def guarded_sets(certificate: dict[str, Any]) -> set[str]:
    """Names of the sets that a certificate lists: folder names, given as text or as {name or path: …}."""
    names = set()
    for entry in certificate.get("guarded", []):
        text = entry if isinstance(entry, str) else entry.get("name") or entry.get("path") or ""
        names.add(Path(str(text)).name)
    return names - {""}
