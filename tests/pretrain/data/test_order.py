"""The training order: a permutation each epoch, fair over corpora, videos kept apart, independent of all else."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panendofm.runtime.errors import UserError
from pretrain.data.order.keyed_random import fill_stretch, shuffled
from pretrain.data.order.order import DataOrder
from pretrain.data.order.samples_by_video import sort_samples


def corpus(frames_per_video: list[int], corpora: int) -> tuple[np.ndarray, np.ndarray]:
    """Corpus and video numbers of samples, in a scrambled order; video v belongs to corpus v mod `corpora`."""
    videos = np.repeat(np.arange(len(frames_per_video)), frames_per_video)
    videos = videos[np.random.default_rng(len(videos)).permutation(len(videos))]
    return videos % corpora, videos


def epoch_of(order: DataOrder, epoch: int) -> list[tuple[int, int]]:
    """(row, use) at every position of an epoch, which may begin and end inside a batch."""
    first, last = epoch * order.epoch_images, (epoch + 1) * order.epoch_images - 1
    steps = range(first // order.batch_images, last // order.batch_images + 1)
    batches = [order.batch(step) for step in steps]
    pairs = [(int(r), int(u)) for b in batches for r, u in zip(b.rows, b.uses, strict=True)]
    return [pair for pair in pairs if pair[1] == epoch]


sizes = st.lists(st.integers(1, 12), min_size=1, max_size=40)


@settings(max_examples=60)
@given(sizes, st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.integers(0, 3), st.integers(0, 2**63))
def test_every_epoch_is_a_permutation(
    frames: list[int], corpora: int, groups: int, group: int, epoch: int, seed: int
) -> None:
    of_corpus, videos = corpus(frames, corpora)
    order = DataOrder(sort_samples(of_corpus, videos), seed, groups * group, group)
    assert sorted(row for row, _ in epoch_of(order, epoch)) == list(range(len(videos)))


@settings(max_examples=60)
@given(sizes, st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**63))
def test_no_batch_holds_two_frames_of_a_video_while_there_are_batches_enough(
    frames: list[int], corpora: int, groups: int, group: int, seed: int
) -> None:
    of_corpus, videos = corpus(frames, corpora)
    order = DataOrder(sort_samples(of_corpus, videos), seed, groups * group, group)
    full_batches = order.epoch_images // order.batch_images - 1
    for step in range(order.epoch_images // order.batch_images):
        repeats = Counter(videos[order.batch(step).rows].tolist())
        for video, count in repeats.items():
            if frames[video] <= full_batches:
                assert count == 1, f"step {step} holds {count} frames of video {video}"
            elif full_batches > 0:  # no fewer are possible
                assert count <= -(-frames[video] // full_batches)


@settings(max_examples=60)
@given(st.integers(2, 6), st.integers(1, 6), st.integers(0, 2**63))
def test_frames_that_must_share_a_batch_go_to_different_groups(groups: int, group: int, seed: int) -> None:
    # `group` videos, each with one frame per group in every batch: no two of them need to meet in a group.
    videos = np.repeat(np.arange(group), groups * 3)
    order = DataOrder(sort_samples(np.zeros_like(videos), videos), seed, groups * group, group)
    for step in range(6):
        for members in order.batch(step).rows.reshape(groups, group):
            assert len(set(videos[members].tolist())) == group


def test_batches_shared_by_two_epochs_hold_no_video_twice() -> None:
    of_corpus, videos = corpus([6] * 70, 2)  # 420 samples, batches of 32: 13.1 batches an epoch
    for seed in range(20):
        order = DataOrder(sort_samples(of_corpus, videos), seed, 32, 8)
        for epoch in (1, 2, 3):
            rows = order.batch(epoch * 420 // 32).rows
            assert len(set(videos[rows].tolist())) == 32, f"seed {seed}, epoch {epoch}"


@settings(max_examples=40)
@given(st.lists(st.floats(0.05, 5.0), min_size=3, max_size=3), st.integers(0, 2**63))
def test_corpora_appear_by_their_weights(weights: list[float], seed: int) -> None:
    of_corpus, videos = corpus([3] * 200, 3)
    order = DataOrder(sort_samples(of_corpus, videos), seed, 50, 10, weights)
    share = np.array(weights) / sum(weights)
    counts = np.array([np.bincount(of_corpus[order.batch(s).rows], minlength=3) for s in range(12)])  # one epoch
    assert np.abs(counts.sum(0) - share * 600).max() <= 1
    assert np.abs(counts - share * 50).max() <= 2.01  # every single batch is fair as well


def test_a_weighted_corpus_runs_through_all_its_samples_before_it_repeats_one() -> None:
    of_corpus, videos = np.array([0] * 30 + [1] * 10), np.arange(40)
    order = DataOrder(sort_samples(of_corpus, videos), 7, 8, 4, [1.0, 3.0])  # corpus 1: 30 of 40 samples, from 10
    seen = [(int(r), int(u)) for s in range(20) for r, u in zip(*order.batch(s)[:2], strict=True)]
    assert max(Counter(seen).values()) == 1  # (row, use) never repeats, so no augmentation does
    uses = Counter(row for row, _ in seen)
    assert {uses[row] for row in range(30, 40)} == {12}
    assert {uses[row] for row in range(30)} <= {1, 2}
    with pytest.raises(UserError, match=r"data\.sampling_weights"):
        DataOrder(sort_samples(of_corpus, videos), 7, 8, 4, [0.0, 0.0])


def test_a_step_can_be_asked_for_alone() -> None:
    of_corpus, videos = corpus([5] * 30, 2)
    forwards = DataOrder(sort_samples(of_corpus, videos), 3, 16, 4)
    expected = {step: forwards.batch(step) for step in range(40)}
    for step in (33, 0, 39, 20):  # as a resumed run does: nothing before it was asked for
        alone = DataOrder(sort_samples(of_corpus, videos), 3, 16, 4).batch(step)
        for ours, theirs in zip(alone, expected[step], strict=True):
            assert np.array_equal(ours, theirs)


def test_the_order_is_this_one() -> None:
    """Frozen values: a change of the order breaks every run that is under way and needs another ORDER_VERSION."""
    of_corpus, videos = corpus([4] * 6, 2)
    order = DataOrder(sort_samples(of_corpus, videos), 0, 6, 3)
    assert [order.batch(s).rows.tolist() for s in (0, 5)] == [[11, 21, 1, 6, 14, 18], [10, 21, 18, 19, 22, 1]]


@pytest.mark.parametrize(
    ("window", "rows", "uses"),
    [
        (None, [[6, 11, 15, 13, 23, 9], [19, 6, 14, 3, 5, 10]], [[1, 0, 0, 0, 1, 0], [1, 2, 0, 3, 1, 1]]),
        (2, [[6, 7, 21, 6, 11, 23], [7, 10, 20, 11, 21, 10]], [[0, 0, 0, 1, 1, 0], [2, 2, 0, 2, 2, 3]]),
    ],
)
def test_the_order_with_weights_of_corpora_is_this_one(
    window: int | None, rows: list[list[int]], uses: list[list[int]]
) -> None:
    """Frozen values, as above; a corpus of 12 is seen 20 times an epoch: rests, wholes and beginnings of cycles."""
    of_corpus, videos = corpus([4] * 6, 2)
    order = DataOrder(sort_samples(of_corpus, videos), 0, 6, 3, [5.0, 1.0], np.arange(24) // 6, window)
    batches = [order.batch(step) for step in (0, 7)]
    assert [batch.rows.tolist() for batch in batches] == rows
    assert [batch.uses.tolist() for batch in batches] == uses


@settings(max_examples=40)
@given(st.integers(1, 100_000), st.floats(0, 1), st.floats(0, 1), st.integers(0, 2**63))
def test_a_stretch_has_the_numbers_that_a_shuffle_puts_there(count: int, a: float, b: float, seed: int) -> None:
    begin, end = sorted((int(a * count), int(b * count)))
    end = max(end, begin + 1) if begin < count else count
    begin = min(begin, end - 1)
    into = np.empty(end - begin, np.int32)
    fill_stretch((seed, 3), count, begin, end, into)
    assert np.array_equal(into, np.sort(shuffled((seed, 3), count)[begin:end]))


@pytest.mark.parametrize("seed", range(8))
def test_videos_are_kept_apart_where_a_turn_lasts_several_rounds(seed: int) -> None:
    """Batches larger than the number of turns' orders, videos of all lengths, over three epochs and their borders."""
    rng = np.random.default_rng(seed)
    frames = rng.integers(1, 40, 200).tolist()
    of_corpus, videos = corpus(frames, 3)
    order = DataOrder(sort_samples(of_corpus, videos), seed, 150, 10)
    full_batches = order.epoch_images // order.batch_images - 1
    seen: Counter[int] = Counter()
    for step in range(3 * order.epoch_images // order.batch_images):
        batch = order.batch(step)
        seen.update(batch.rows.tolist())
        repeats = Counter(videos[batch.rows].tolist())
        if len(order.parts_of(step)) == 1:
            assert all(count <= -(-frames[video] // full_batches) for video, count in repeats.items())
        shares = np.bincount(of_corpus[batch.rows], minlength=3) - np.bincount(of_corpus) * 150 / len(videos)
        assert np.abs(shares).max() <= 2.01 * len(order.parts_of(step))
    assert set(seen.values()) <= {2, 3} and len(seen) == len(videos)


def test_a_batch_holds_what_was_dealt_to_it() -> None:
    """Batch to samples and sample to batch are one map, told from both ends, also of batches that sit out rounds."""
    for seed in range(20):
        of_corpus, videos = corpus([3, 50, 7, 1, 20, 9, 9, 130] * 3, 2)
        order = DataOrder(sort_samples(of_corpus, videos), seed, 96, 8)
        for epoch in (0, 1, 2):
            part = order._part((epoch,))
            dealt = [part.positions_of(batch) for batch in range(part.batches)]
            assert np.array_equal(np.sort(np.concatenate(dealt)), np.arange(len(videos)))
            for batch, positions in enumerate(dealt):
                assert (part.batch_of(positions) == batch).all()


def test_equal_videos_meet_others_in_every_batch() -> None:
    """Lengths that divide the number of batches must not put the same videos together in all of them."""
    videos = np.repeat(np.arange(400), 100)  # 200 batches of 200: each holds half of the videos
    order = DataOrder(sort_samples(np.zeros_like(videos), videos), 0, 200, 10)
    sets = [frozenset(videos[order.batch(step).rows].tolist()) for step in range(200)]
    assert {len(one) for one in sets} == {200}
    overlaps = [len(a & b) for i, a in enumerate(sets) for b in sets[:i]]
    assert max(overlaps) < 160 and abs(np.mean(overlaps) - 100) < 5


@pytest.mark.timeout(30)
def test_a_border_where_every_video_is_taken_is_crossed_at_once() -> None:
    """All 200 videos are in the shared batch already: whoever looks for others sample by sample takes a minute."""
    of_corpus, videos = corpus([200] * 200, 2)
    order = DataOrder(sort_samples(of_corpus, videos), 0, 992, 31)
    border = order.epoch_images // 992
    assert len(order.parts_of(border)) == 2
    most = [max(Counter(videos[order.batch(step).rows].tolist()).values()) for step in (border - 1, border, border + 1)]
    assert most[0] <= 6 and most[2] <= 6 and most[1] <= 7  # 992 / 200, rounded up; the border may add one


def test_a_million_samples_cross_a_border_without_meeting() -> None:
    videos = np.random.default_rng(0).integers(0, 2000, 1_000_000)
    order = DataOrder(sort_samples(videos % 5, videos), 3, 992, 31)
    for step in (0, 1_000_000 // 992, 2_000_000 // 992):
        assert len(set(videos[order.batch(step).rows].tolist())) == 992


def test_epochs_and_seeds_differ() -> None:
    of_corpus, videos = corpus([2] * 100, 1)
    first = DataOrder(sort_samples(of_corpus, videos), 0, 50, 10)
    other_seed = DataOrder(sort_samples(of_corpus, videos), 1, 50, 10)
    orders = [first.batch(0).rows.tolist(), first.batch(4).rows.tolist(), other_seed.batch(0).rows.tolist()]
    assert all(a != b for i, a in enumerate(orders) for b in orders[:i])
    # Chance alone: about 50 · 50/200 of the first batch's samples are in the same batch of the next epoch.
    again = np.mean([len(set(first.batch(k).rows) & set(first.batch(k + 4).rows)) for k in range(4)])
    assert 6 < again < 20


# Windows: (frames of each video, corpora, groups, images of a group, shards, shards of a window, seed).
windowed = (sizes, st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 9), st.integers(1, 4))


def in_windows(
    frames: list[int], corpora: int, groups: int, group: int, shards: int, window: int, seed: int
) -> tuple[DataOrder, np.ndarray, np.ndarray]:
    of_corpus, videos = corpus(frames, corpora)
    of_shard = np.arange(len(videos)) % shards  # a fair share of everything in each, as data_pipeline deals them
    order = DataOrder(sort_samples(of_corpus, videos), seed, groups * group, group, None, of_shard, window)
    return order, videos, of_shard


@settings(max_examples=60)
@given(*windowed, st.integers(0, 3), st.integers(0, 2**63))
def test_with_windows_an_epoch_is_a_permutation_that_goes_from_window_to_window(
    frames: list[int], corpora: int, groups: int, group: int, shards: int, window: int, epoch: int, seed: int
) -> None:
    order, videos, of_shard = in_windows(frames, corpora, groups, group, shards, window, seed)
    assert sorted(row for row, _ in epoch_of(order, epoch)) == list(range(len(videos)))
    first, last = epoch * order.epoch_images, (epoch + 1) * order.epoch_images - 1
    met = {}
    for step in range(first // order.batch_images, last // order.batch_images + 1):
        batch = order.batch(step)
        met[step] = set(of_shard[batch.rows[batch.uses == epoch]].tolist())
    for step in met:
        if len(order.parts_of(step)) == 1:
            assert met[step] <= set(order.shards_ahead(step).tolist())
            begun = {shard for s, shards_met in met.items() if s <= step for shard in shards_met}
            unfinished = {shard for s, shards_met in met.items() if s >= step for shard in shards_met}
            assert len(begun & unfinished) <= window
    assert len(set(order.shards_ahead(0).tolist())) <= 2 * min(window, shards)


@settings(max_examples=60)
@given(*windowed, st.integers(0, 2**63))
def test_with_windows_a_video_is_spread_over_the_batches_of_each(
    frames: list[int], corpora: int, groups: int, group: int, shards: int, window: int, seed: int
) -> None:
    order, videos, of_shard = in_windows(frames, corpora, groups, group, shards, window, seed)
    steps = range(order.epoch_images // order.batch_images)
    windows = {order.parts_of(step)[0] for step in steps if len(order.parts_of(step)) == 1}
    for name in windows:
        whole = [step for step in steps if order.parts_of(step) == [name]]  # batches within this window alone
        if len(whole) < 3:
            continue
        of_video = Counter(videos[np.isin(of_shard, order._window_shards(*name))].tolist())
        for step in whole:
            for video, count in Counter(videos[order.batch(step).rows].tolist()).items():
                assert count <= -(-of_video[video] // len(whole))


def test_with_windows_a_step_can_be_asked_for_alone() -> None:
    arguments = ([5] * 30, 2, 4, 4, 7, 2, 3)
    forwards = in_windows(*arguments)[0]
    expected = {step: forwards.batch(step) for step in range(40)}
    for step in (33, 0, 39, 20):
        alone = in_windows(*arguments)[0].batch(step)
        for ours, theirs in zip(alone, expected[step], strict=True):
            assert np.array_equal(ours, theirs)


def test_batches_shared_by_two_windows_hold_no_video_twice() -> None:
    shared = 0
    for seed in range(10):
        order, videos, _ = in_windows([6] * 120, 2, 4, 8, 9, 3, seed)  # 720 samples, windows of 240, batches of 32
        for step in range(60):
            names = order.parts_of(step)
            if len(names) > 1:
                shared += 1
                assert len(set(videos[order.batch(step).rows].tolist())) == 32, f"seed {seed}, step {step}"
    assert shared == 40


def test_with_windows_the_order_is_this_one() -> None:
    """Frozen values: a change of the order breaks every run that is under way and needs another ORDER_VERSION."""
    order = in_windows([4] * 6, 2, 2, 3, 4, 2, 0)[0]
    assert [order.batch(s).rows.tolist() for s in (0, 5)] == [[19, 5, 9, 3, 15, 1], [10, 14, 20, 6, 0, 12]]


def test_substitutes_are_a_function_of_the_position() -> None:
    of_corpus, videos = corpus([2] * 100, 1)
    order, again = (DataOrder(sort_samples(of_corpus, videos), 0, 50, 10) for _ in range(2))
    drawn = [order.substitute(position, attempt) for position in range(40) for attempt in range(2)]
    assert drawn == [again.substitute(position, attempt) for position in range(40) for attempt in range(2)]
    assert len(set(drawn)) > 60


def test_a_batch_that_does_not_divide_into_groups_is_refused() -> None:
    with pytest.raises(UserError, match=r"batch\.microgroup_images=3"):
        DataOrder(sort_samples(np.zeros(4, int), np.arange(4)), 0, 4, 3)
