"""The leakage note reads the certificate that the data pipeline writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from data_pipeline.leakage.guard import set_fingerprint
from eval_knn.labelled_images import DataConfig, LabelledImages, find_images
from eval_knn.leakage import leakage_note
from eval_knn.networks import find_network
from runtime.files import sha256_of


def certificate(folder: Path, name: str) -> dict[str, object]:
    """A certificate that guards the images of a folder, made with the data pipeline's own checksum."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    images = [SimpleNamespace(name=f"{name}/{path.relative_to(folder)}", sha256=sha256_of(path)) for path in files]
    return {"guarded_sets": [{"name": name, "images": len(images), "fingerprint": set_fingerprint(images)}]}


def test_note(labelled_folder: Path, weights_file: Path, tmp_path: Path) -> None:
    images: LabelledImages = find_images(DataConfig(str(labelled_folder)), tmp_path)
    network = find_network(str(weights_file), tmp_path)
    name = labelled_folder.name
    same_content = replace(network, certificate=certificate(labelled_folder, "kvasir under another name"))
    assert leakage_note(same_content, images) == {
        "guarded": True,
        "note": f"copies of these images ({name}) were kept out of the training data.",
    }
    same_name = replace(network, certificate=certificate(labelled_folder / "polyp", name))
    assert (
        leakage_note(same_name, images)["guarded"] is False
        and "not all the same" in leakage_note(same_name, images)["note"]
    )
    other = replace(network, certificate=certificate(labelled_folder / "polyp", "hyperkvasir"))
    assert leakage_note(other, images)["guarded"] is False
    assert f"NOT guarded against {name} (only against hyperkvasir)" in leakage_note(other, images)["note"]
    nothing = replace(network, certificate={"guarded_sets": []})
    assert "no set at all" in leakage_note(nothing, images)["note"]
    assert (
        leakage_note(network, images)["guarded"] is None
        and "no leakage certificate" in leakage_note(network, images)["note"]
    )
    assert "baseline" in leakage_note(find_network("pixels", tmp_path), images)["note"]
