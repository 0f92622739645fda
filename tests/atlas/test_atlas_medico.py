"""The sixteen Medico classes: recognized as such, mapped, and kept out of the bowel-preparation task."""

from __future__ import annotations

import json
from pathlib import Path

from panendofm.atlas.datasets.layouts import find_datasets
from panendofm.atlas.datasets.mapping import load_mappings
from panendofm.atlas.panendox.tasks import build_task, task_specs
from panendofm.atlas.samples import Sample

CLASSES = json.loads((Path(__file__).parent.parent / "golden" / "metrics_medico.json").read_text())[
    "medico2018_team_SatM"
]["classes"]


def test_all_sixteen_classes_are_mapped() -> None:
    mapping = load_mappings()["medico"]
    assert sorted(mapping.labels) == sorted(CLASSES)


def test_the_folder_is_medico_and_not_kvasir_as_well(tmp_path: Path) -> None:
    for name in CLASSES:
        (tmp_path / "medico" / name).mkdir(parents=True)
    assert [f.mapping.dataset for f in find_datasets([str(tmp_path)], load_mappings())] == ["medico"]
    kvasir = tmp_path / "eight"
    for name in load_mappings()["kvasir"].labels:
        (kvasir / name).mkdir(parents=True)
    assert [f.mapping.dataset for f in find_datasets([str(kvasir)], load_mappings())] == ["kvasir"]


def test_stool_classes_stay_out_of_bowel_preparation() -> None:
    labels = load_mappings()

    def sample(dataset: str, name: str) -> Sample:
        return Sample(name, name, (dataset,), labels[dataset].labels[name], (name,), ())

    names = [("medico", "colon-clear"), ("medico", "stool-plenty"), ("nerthus", "0"), ("nerthus", "3")]
    samples = [sample(dataset, name) for dataset, name in names]
    task = build_task(task_specs("bbps")[0], samples)
    assert task.rows.tolist() == [2, 3]
