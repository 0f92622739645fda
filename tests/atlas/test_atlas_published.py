"""The catalog and the published values are what the paper prints, and the counts in the docs are those of the files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from panendofm.atlas.__main__ import STAGE
from panendofm.atlas.datasets.catalog import count_table_one
from panendofm.atlas.datasets.mapping import load_mappings
from panendofm.atlas.panendox.published import published_panendox
from panendofm.atlas.panendox.tasks import panendox_specs
from panendofm.atlas.taxonomy import load_taxonomy
from panendofm.runtime.command_line import run_stage

ROOT = Path(__file__).resolve().parent.parent.parent


def test_all_fifty_cells_are_there_with_their_intervals() -> None:
    paper = published_panendox()
    assert len(paper.tasks) == 10 and len(paper.networks) == 5
    assert [spec.name for spec in panendox_specs()] == list(paper.tasks)
    for name, task in paper.tasks.items():
        assert len(task.values) == 5
        for value, low, high in task.values:
            assert low <= value <= high, name
    # Sums of the columns, added up by hand from the printed table.
    sums = [sum(task.values[i][0] for task in paper.tasks.values()) for i in range(5)]
    assert sums == pytest.approx([6.785, 6.375, 5.772, 6.193, 5.870])


def test_ranks_are_counted_in_the_table_and_ties_share_a_place() -> None:
    paper = published_panendox()
    assert paper.tasks["stomach-disease"].ranks()[:2] == [1, 1]
    places = {one.network: one for one in paper.places()}
    assert places["PanEndoFM"].counted == (6, 2, 2) and places["PanEndoFM"].differs  # the text says 6, 3, 1
    assert places["EndoFM-LV"].counted == (3, 3, 2) and places["EndoFM-LV"].differs
    assert not places["EndoSSL"].differs


def test_the_papers_classes_are_those_of_its_second_table() -> None:
    counts = {spec.name: len(spec.levels[0].classes) for spec in panendox_specs("published")}
    stated = {name: task.stated_classes for name, task in published_panendox().tasks.items()}
    differ = {name: (counts[name], stated[name]) for name in counts if counts[name] != stated[name]}
    differ.pop("gi-tree")
    assert differ == {"barretts-grading": (3, 4), "si-disease": (19, 20), "colon-disease": (19, 30)}
    taxonomy = load_taxonomy()
    for spec in panendox_specs("published"):
        if spec.name.endswith("-disease"):
            for name in spec.levels[0].classes:
                assert name in taxonomy.findings or name in taxonomy.aliases, name
    clean = {spec.name: spec.levels[0].classes for spec in panendox_specs("clean")}
    assert clean["uc-grading"] == ("MAYO-0", "MAYO-1", "MAYO-2", "MAYO-3")
    for synonym in ("stomach-cancer", "angiodysplasia-SI", "angiodysplasia-colon", "colon-diverticula"):
        assert not any(synonym in classes for classes in clean.values())


def test_a_grade_is_a_class_of_its_own_only_where_the_paper_lists_it() -> None:
    published = {spec.name: spec.levels[-1].class_of for spec in panendox_specs("published")}
    erythema, aphthae = (load_mappings()["crohnipi"].meaning(code) or () for code in ("E", "AU"))
    assert [published["si-disease"](label) for label in erythema] == ["erythema", "crohns"]
    assert [published["si-disease"](label) for label in aphthae] == ["SI-ulcer", "crohns"]
    (short,) = load_mappings()["hyperkvasir"].meaning("barretts-short-segment") or ()
    assert published["esophagus-disease"](short) == "barretts-short-segment" == published["gi-tree"](short)
    (diverticula,) = load_mappings()["gastrovision"].meaning("Colon diverticula") or ()
    assert published["colon-disease"](diverticula) == "colon-diverticula"
    (grade_3,) = load_mappings()["limuc"].meaning("Mayo 3") or ()
    assert published["uc-grading"](grade_3) is None


def test_table_one_is_in_the_catalog_with_its_contradictions(capsys: pytest.CaptureFixture[str]) -> None:
    abouts = [mapping.about for mapping in load_mappings().values() if mapping.about is not None]
    assert sorted(about.table1 for about in abouts if about.table1 is not None) == list(range(1, 22))
    counted = count_table_one(abouts)
    assert (counted.datasets, counted.countries, counted.hospitals) == (21, 12, 25)
    with pytest.raises(SystemExit) as stop:
        run_stage(STAGE, ["list"])
    printed = capsys.readouterr().out
    assert not stop.value.code
    for sentence in (
        "30 datasets, Table 1 lists 21",
        "13 countries, Table 1 lists 12",
        "26 hospitals, Table 1 lists 25",
    ):
        assert sentence in printed
    for name, mapping in load_mappings().items():
        assert name in printed and mapping.about is not None and mapping.about.access in printed


def test_more_classes_can_be_reached_than_by_the_first_mappings() -> None:
    labels = {label for mapping in load_mappings().values() for own in mapping.labels.values() for label in own}
    reachable = {
        spec.name: {name for label in labels if (name := spec.levels[-1].class_of(label))}
        for spec in panendox_specs("clean")
    }
    assert {"crohns", "parasites-SI"} <= reachable["si-disease"]
    assert reachable["uc-grading"] == {"MAYO-0", "MAYO-1", "MAYO-2", "MAYO-3"}


def test_counts_in_the_docs_are_those_of_the_files() -> None:
    taxonomy, mappings = load_taxonomy(), load_mappings()
    expected = {
        "datasets": len(mappings),
        "labels": sum(len(mapping.labels) for mapping in mappings.values()),
        "findings": len(taxonomy.findings),
        "regions": len(taxonomy.regions),
        "categories": len(taxonomy.categories),
        "layouts were read from real files": sum(bool(m.about and m.about.real_files) for m in mappings.values()),
    }
    text = (ROOT / "docs" / "how-to" / "atlas.md").read_text()
    line = next(line for line in text.splitlines() if line.startswith("Counts: "))
    found = {what: int(number) for number, what in re.findall(r"(\d+) ([a-z ]+?)(?:[,.]|$)", line)}
    assert found == expected
    readme = (ROOT / "README.md").read_text()
    assert f"Labels of {len(mappings)} datasets mapped to one taxonomy" in readme
    probe = (ROOT / "docs" / "how-to" / "linear-probe.md").read_text()
    assert f"| GI tree | {len(taxonomy.findings)} findings |" in probe
