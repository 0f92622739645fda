"""What corpora and datasets share: every name in the table exists, and corpora lead to the datasets seen."""

from __future__ import annotations

import pytest

from data_pipeline.registry import ADAPTERS
from panendofm.atlas import CORPORA, OVERLAPS_BETWEEN_CORPORA, OVERLAPS_WITH_EVALUATION, datasets_seen, load_mappings
from panendofm.runtime.errors import UserError


def test_the_table_names_what_exists() -> None:
    assert {*CORPORA, "folder"} == set(ADAPTERS)
    for overlap in OVERLAPS_BETWEEN_CORPORA:
        assert overlap.part.split("/")[0] in CORPORA and overlap.of in CORPORA
    for overlap in OVERLAPS_WITH_EVALUATION:
        assert overlap.part.split("/")[0] in CORPORA and overlap.of in load_mappings()


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
def test_datasets_that_share_pictures_with_corpora(corpora: list[str], seen: set[str]) -> None:
    assert datasets_seen(corpora, "key") == seen


def test_an_unknown_corpus_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match=r"key: 'hyper-kvasir' is no corpus .*; did you mean 'hyperkvasir'\?"):
        datasets_seen(["hyper-kvasir"], "key")
    with pytest.raises(UserError, match=r"there are: .*colonoscopicds.*"):
        datasets_seen(["imagenet"], "key")
