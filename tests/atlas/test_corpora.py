"""What corpora and datasets share: every name in the table exists, and corpora lead to the datasets seen."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from data_pipeline import registry
from data_pipeline.config import PipelineConfig
from data_pipeline.planning import plan
from panendofm.atlas import (
    corpora,
    datasets_seen,
    load_corpora,
    load_mappings,
    load_taxonomy,
    overlaps_between_corpora,
    overlaps_with_evaluation,
)
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError


def test_the_files_name_what_exists() -> None:
    known = load_corpora()
    assert {*known, "folder"} == set(registry.adapters())
    for overlap in overlaps_between_corpora():
        assert overlap.part.split("/")[0] in known and overlap.of in known
    for overlap in overlaps_with_evaluation():
        assert overlap.part.split("/")[0] in known and overlap.of in load_mappings()
    rules = [rule for corpus in known.values() for rule in corpus.files]
    organs = {organ for rule in rules for organ in (rule.organ, *rule.organs.values())}
    assert organs - {None} <= set(load_taxonomy().regions), "one name for an organ"


NEW_CORPUS = """
title: A new corpus (Somebody 2026)
licence: CC BY 4.0
files:
- {pattern: '(?P<component>[^/]+)/(?P<patient>p[0-9]+)/(?P<video>[^/]+)[.]mp4', kind: video, organ: stomach}
shares: {gastrovision: the same videos}
components:
  Old: {part_of: {ers: the same frames}, shares: {sun: the same frames}}
"""


def test_a_new_corpus_is_one_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its layout, its license, what it shares, and the names that may be shown of it: all from there."""
    folder = tmp_path / "corpora"
    shutil.copytree(corpora._FOLDER, folder)
    (folder / "newest.yaml").write_text(NEW_CORPUS)
    cached = (load_corpora, overlaps_between_corpora, overlaps_with_evaluation)
    monkeypatch.setattr(corpora, "_FOLDER", folder)
    for function in cached:
        function.cache_clear()
    try:
        for name in ("newest/Fresh/p1/a.mp4", "newest/Old/p2/b.mp4", "ers/0001/samples/frames/1.png"):
            path = tmp_path / "data" / name
            path.parent.mkdir(parents=True)
            path.touch()
        words = [f"data_root={tmp_path / 'data'}", "corpora.newest={}", "corpora.ers={}"]
        planned = plan(load_config(PipelineConfig, None, words))
        (source,) = [source for source in planned.sources if source.corpus == "newest"]
        assert (source.path, source.license, source.organ) == ("Fresh/p1/a.mp4", "CC BY 4.0", "stomach")
        assert planned.left_out == {"newest/Old: known overlap with ers": 1}
        assert {(overlap.part, overlap.of) for overlap in planned.overlaps} >= {("newest", "gastrovision")}
        assert datasets_seen(["newest"], "key") == {"gastrovision", "sun"}
        assert registry.is_public_component("old") and not registry.is_public_component("Fresh")
    finally:
        for function in cached:
            function.cache_clear()


@pytest.mark.parametrize(
    ("corpora", "seen"),
    [
        ([], set()),
        (["hyperkvasir"], {"hyperkvasir", "kvasir", "kvasir-seg", "kvasir-sessile", "medico"}),
        (["kvasir"], {"hyperkvasir", "kvasir", "kvasir-seg", "medico"}),
        (["ers", "colonoscopicds"], {"ers", "kumc"}),
        (["ldpolypvideo"], {"ldpolypvideo"}),
        (["EndoFM-pretrain/SUN"], {"sun"}),
        (
            ["endofm-pretrain"],
            {"hyperkvasir", "kvasir-capsule", "kvasircapsule-seg", "ldpolypvideo", "sun", "sun-seg", "kumc"},
        ),
        (["endofm-pretrain/LDPolypVideo"], {"ldpolypvideo"}),
        (["gastrovision"], {"gastrovision"}),
    ],
)
def test_datasets_that_share_images_with_corpora(corpora: list[str], seen: set[str]) -> None:
    assert datasets_seen(corpora, "key") == seen


def test_an_unknown_corpus_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match=r"key: 'hyper-kvasir' is no corpus .*; did you mean 'hyperkvasir'\?"):
        datasets_seen(["hyper-kvasir"], "key")
    with pytest.raises(UserError, match=r"there are: .*colonoscopicds.*"):
        datasets_seen(["imagenet"], "key")
