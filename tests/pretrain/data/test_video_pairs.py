"""Pairs of frames: of one video, another frame, exact on any number of ranks and after a stop."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from engine_runs import assert_same_run, metrics_of, run_ranks, words_of

from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from pretrain import PretrainConfig
from pretrain.data.loader import RankBatches, order_of, shards_of
from pretrain.data.order.batch_sampler import BatchSampler
from pretrain.data.order.samples_by_video import sort_samples
from pretrain.data.order.video_pairs import VideoPairs

PAIRS = {"data__pairs": "video"}


def test_partners_are_other_frames_of_the_same_video_all_alike() -> None:
    random = np.random.default_rng(0)
    videos = random.permutation(np.repeat(np.arange(40), random.integers(1, 9, 40)))
    videos = np.unique(videos, return_inverse=True)[1]
    pairs = VideoPairs(sort_samples(videos % 3, videos), seed=5)
    sizes = np.bincount(videos)
    for row in range(len(videos)):
        partner = pairs.partner(row, use=1)
        assert videos[partner] == videos[row]
        assert (partner == row) == (sizes[videos[row]] == 1)
    row = int(np.flatnonzero(sizes[videos] == 8)[0])
    drawn = Counter(pairs.partner(row, use) for use in range(3500))
    assert len(drawn) == 7 and min(drawn.values()) > 400  # 500 each, on the average
    assert pairs.partner(row, 3) == VideoPairs(sort_samples(videos % 3, videos), seed=5).partner(row, 3)


@pytest.mark.parametrize("where", ["cpu", "gpu"])
def test_the_second_crop_is_the_partners(shards: Path, where: str) -> None:
    words = words_of(Path("unused"), shards, augment__where=where, augment__local_crops=1)
    config = load_config(PretrainConfig, None, words)
    held = shards_of(config.data)
    order = order_of(config.data, config.batch, 0, held)
    pairs = VideoPairs(held.runs, 0)
    plain = RankBatches(held, order, config.augment, config.masks, 14, 4, 0)
    paired = RankBatches(held, order, config.augment, config.masks, 14, 4, 0, None, pairs)
    request = next(iter(BatchSampler(order, config.batch, 0, 4, range(1))))
    own, pair = plain[request].batch, paired[request].batch
    count = len(request.rows)
    assert (own.global_crops[:count] == pair.global_crops[:count]).all()
    assert (own.local_crops == pair.local_crops).all()
    for number, (row, use) in enumerate(zip(request.rows.tolist(), request.uses.tolist(), strict=True)):
        partner = pairs.partner(row, use)
        assert partner != row
        assert held.key(partner).split("_")[0] == held.key(row).split("_")[0]  # keys begin with the video's name
        (_, second), _ = plain._crops_of(partner, use)[0]
        assert (pair.global_crops[count + number].permute(1, 2, 0).numpy() == second).all()


def test_a_run_with_pairs_is_exact(shards: Path, tmp_path: Path) -> None:
    whole, stopped, alone = (tmp_path / name for name in ("whole", "stopped", "alone"))
    run_ranks(words_of(whole, shards, **PAIRS), 2)
    for stop in ("5 steps", None):
        run_ranks(words_of(stopped, shards, **PAIRS, run__stop_at=stop, data__workers=1), 2)
    assert_same_run(whole, stopped, 12)
    run_ranks(words_of(alone, shards, **PAIRS), 1)
    totals = [[row["total"] for row in metrics_of(run)] for run in (whole, alone)]
    assert totals[0] == pytest.approx(totals[1], rel=1e-5)


def test_pairs_do_not_go_with_windows(shards: Path) -> None:
    with pytest.raises(UserError, match=r"data\.pairs=video .* data\.window_shards"):
        load_config(PretrainConfig, None, words_of(Path("unused"), shards, **PAIRS, data__window_shards=2))
