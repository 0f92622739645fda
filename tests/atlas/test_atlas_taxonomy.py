"""The taxonomy and the mappings: sound as shipped, and every mistake is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from panendofm.atlas.datasets.mapping import load_mappings, parse_mapping
from panendofm.atlas.taxonomy import AMBIGUOUS, Label, load_taxonomy, parse_taxonomy
from panendofm.runtime.errors import UserError

DATASETS = {
    "etis-larib", "cvc-clinicdb", "kvasir", "nerthus", "kvasir-seg", "edd2020", "hyperkvasir", "cp-child",
    "kvasir-capsule", "kvasircapsule-seg", "kvasir-sessile", "kumc", "sun", "crohnipi", "sun-seg", "ers", "polypgen",
    "gastrovision", "medfmc-endo", "see-ai", "polar", "medico",
    "cvc-300", "cvc-colondb", "ldpolypvideo", "limuc", "gastrohun", "capsule-vision-2024", "wcebleedgen",
    "bkai-neopolyp", "piccolo", "kid",
}  # fmt: skip

TAXONOMY = """
version: 1
regions: {colon: {tract: lower, synonyms: [large bowel]}, stomach: {tract: upper, synonyms: []}}
categories: {pathological-findings: {synonyms: [abnormal]}, normal-findings: {synonyms: []}}
findings:
  colon:
    pathological-findings:
      polyp: {source: T2, synonyms: [lump], grades: {flat: [level], tall: []}}
      growth: {source: TX, alias_of: polyp}
      sheet: {source: T2, alias_of: polyp, alias_grade: flat}
"""


def test_all_datasets_are_mapped_into_the_taxonomy_with_levels_one_to_three() -> None:
    taxonomy, mappings = load_taxonomy(), load_mappings()
    assert set(mappings) == DATASETS
    for mapping in mappings.values():
        assert mapping.labels and mapping.about is not None
        for name, labels in mapping.labels.items():
            for label in labels:
                where = f"{mapping.dataset}: {name}"
                finding = taxonomy.findings[label.finding]  # canonical: an alias is not a key
                assert label.region == finding.region and label.category == finding.category, where
                assert label.grade in (*finding.grades, AMBIGUOUS, ""), where


def test_what_the_paper_states_wrongly_is_right_here() -> None:
    nerthus = load_mappings()["nerthus"]
    assert [nerthus.meaning(str(score))[0].finding for score in range(4)] == ["BBPS-0-1"] * 2 + ["BBPS-2-3"] * 2  # type: ignore[index]
    colitis = load_mappings()["hyperkvasir"].meaning("ulcerative-colitis-grade-1-2")
    assert colitis == (Label("colon", "pathological-findings", "ulcerative-colitis", AMBIGUOUS),)


def test_other_spellings_of_a_dataset_lead_to_the_same_label() -> None:
    mapping = load_mappings()["hyperkvasir"]
    assert mapping.meaning("oesophagitis-a") == mapping.meaning("esophagitis-a") is not None
    assert mapping.meaning("no such label") is None


def test_aliases_and_synonyms_resolve() -> None:
    taxonomy = parse_taxonomy(TAXONOMY, "t.yaml")
    expected = Label("colon", "pathological-findings", "polyp", "flat")
    second = taxonomy.resolve(["large bowel", "abnormal", "growth", "level"], "here")
    assert second == Label("colon", "pathological-findings", "polyp", "flat", "growth")
    assert (second.written, expected.written) == ("growth", "polyp")
    assert taxonomy.resolve(["colon", "abnormal", "sheet"], "here") == expected  # a name of a grade
    assert taxonomy.resolve(["colon", "pathological-findings", "LUMP", "flat"], "here") == expected
    assert list(taxonomy.findings) == ["polyp"]
    for label in (expected, second, Label("colon", "normal-findings", "x", "", "y")):
        assert Label.parse(str(label)) == label


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("TX, alias_of: polyp", "TX, alias_of: growth"),
            "growth → growth go in a circle",
        ),
        (
            ("TX, alias_of: polyp", "TX, alias_of: polip"),
            "'growth' is an alias of 'polip', which is not listed",
        ),
        (("  colon:\n", "  colom:\n"), "'colom' is no region; did you mean 'colon'"),
        (("grades:", "grade:"), "unknown key 'grade'; did you mean 'grades'"),
        (
            ("TX, alias_of: polyp", "TX, synonyms: [lump]"),
            "'lump' stands for both polyp and growth",
        ),
        (("version: 1", "version: ["), "not valid YAML"),
        (
            ("alias_grade: flat", "alias_grade: round"),
            "'sheet' means the grade 'round', which its finding",
        ),
    ],
)
def test_a_broken_taxonomy_is_refused(change: tuple[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        parse_taxonomy(TAXONOMY.replace(*change), "t.yaml")
    assert str(error.value).startswith("t.yaml") and "\n" not in str(error.value)


MAPPING = """
dataset: mine
signature: {contains: [a]}
layout: [{files: '(?P<label>[^/]+)/.*'}]
same_as: {lumps: lump}
labels:
  lump: [colon, pathological-findings, colon-polyp, hyperplastic]
"""


def test_a_mapping_is_read() -> None:
    mapping = parse_mapping(MAPPING, "mine.yaml", load_taxonomy())
    expected = (Label("colon", "pathological-findings", "colon-polyp", "hyperplastic"),)
    assert mapping.meaning("lumps") == mapping.meaning("lump") == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("colon-polyp", "colon-polpy"),
            "mine.yaml: lump: 'colon-polpy' is no finding of colon; did you mean 'colon-pol",
        ),
        (("colon-polyp", "pylorus"), "'pylorus' is not a finding of colon; it is pylorus .stomach."),
        (("pathological-findings", "normal-findings"), "'colon-polyp' is one of the pathological-findings"),
        (("hyperplastic", "hyperplastik"), "is no grade of colon-polyp; did you mean 'hyperplastic'"),
        (("[colon, ", "[[colon, "), "not valid YAML"),
        (("labels:", "lables:"), "unknown key 'lables'; did you mean 'labels'"),
        (("lumps: lump", "lumps: lamp"), "same_as.lumps leads to 'lamp'"),
        (("signature: {contains", "signature: {contain"), "unknown key 'contain'; did you mean 'contains'"),
        (("(?P<label>", "(?P<label"), "is not a regular expression"),
        (("dataset: mine", "dataset: mine\nreader: magic"), "there is no reader 'magic'"),
        (("colon, pathological-findings, colon-polyp, hyperplastic", "colon, polyp"), "3 or 4 levels, not 2"),
    ],
)
def test_a_broken_mapping_is_one_sentence(change: tuple[str, str], message: str) -> None:
    assert change[0] in MAPPING
    with pytest.raises(UserError, match=message) as error:
        parse_mapping(MAPPING.replace(*change), "mine.yaml", load_taxonomy())
    assert "\n" not in str(error.value)


def test_a_mapping_of_ones_own_is_added(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(MAPPING)
    assert set(load_mappings(tmp_path)) == DATASETS | {"mine"}
