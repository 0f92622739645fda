"""The leakage note reads the certificate that the data pipeline writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from eval_knn.leakage import leakage_note
from panendofm.atlas import read_labeled_images
from panendofm.backbone.networks import find_network
from panendofm.records.evaluation import LeakageNote
from panendofm.records.shards import Certificate, GuardedSet, fingerprint
from panendofm.runtime.files import sha256_of


def certificate(folder: Path, name: str) -> Certificate:
    """A certificate that guards the images of a folder, as the data pipeline writes it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    own = fingerprint((sha256_of(path), f"{name}/{path.relative_to(folder)}") for path in files)
    return Certificate([GuardedSet(name, len(files), fingerprint=own)])


def test_note(labeled_folder: Path, weights_file: Path, tmp_path: Path) -> None:
    images = read_labeled_images(labeled_folder, tmp_path)
    network = find_network(str(weights_file), tmp_path)
    name = labeled_folder.name
    same_content = replace(network, certificate=certificate(labeled_folder, "kvasir under another name"))
    assert leakage_note(same_content, images) == LeakageNote(
        True, f"copies of these images ({name}) were kept out of the training data."
    )
    same_name = replace(network, certificate=certificate(labeled_folder / "polyp", name))
    assert (
        leakage_note(same_name, images).guarded is False and "not all the same" in leakage_note(same_name, images).note
    )
    other = replace(network, certificate=certificate(labeled_folder / "polyp", "hyperkvasir"))
    assert leakage_note(other, images).guarded is False
    assert f"NOT guarded against {name} (only against hyperkvasir)" in leakage_note(other, images).note
    nothing = replace(network, certificate=Certificate())
    assert "no set at all" in leakage_note(nothing, images).note
    assert (
        leakage_note(network, images).guarded is None and "no leakage certificate" in leakage_note(network, images).note
    )
    assert "baseline" in leakage_note(find_network("pixels", tmp_path), images).note
