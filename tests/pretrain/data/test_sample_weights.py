"""Weights of single samples: shares, windows, uses that never repeat, steps alone; and the file that they come from."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_runs import assert_same_run, metrics_of, run_ranks, words_of
from hypothesis import given, settings
from hypothesis import strategies as st

from panendofm.records.curation import read_curation, read_weights, write_curation
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from pretrain.config import PretrainConfig
from pretrain.data.order.mapped_weights import mapped_weights
from pretrain.data.order.order import DataOrder
from pretrain.data.order.sample_weights import SampleWeights
from pretrain.data.order.samples_by_video import SampleRuns, sort_samples
from pretrain.data.storage.shards import open_shards


def order_of(weights: np.ndarray, seed: int = 0, window: int | None = None, batch: int = 12) -> DataOrder:
    """Videos of five samples each, in two corpora and four shards."""
    videos = np.random.default_rng(1).permutation(np.arange(len(weights)) // 5)
    of_shard = np.arange(len(weights)) % 4
    runs = sort_samples(videos % 2, videos)
    return DataOrder(runs, seed, batch, 4, None, of_shard, window, SampleWeights.of(weights, runs))


@settings(max_examples=60)
@given(st.lists(st.floats(0, 50), min_size=1, max_size=60), st.integers(0, 5), st.integers(0, 2**63))
def test_an_epoch_has_each_sample_as_often_as_its_weight_says(some: list[float], epoch: int, seed: int) -> None:
    weights = np.array([*some, 1.0])
    expected = weights / weights.sum() * len(weights)
    one_by_one = SampleRuns(np.arange(len(weights)), np.ones(len(weights), np.int64), np.zeros(len(weights), np.int64))
    counts = SampleWeights.of(weights, one_by_one).epoch((seed,), epoch).counts
    assert counts.sum() == len(weights)
    assert (np.abs(counts - expected) < 1 + 1e-6).all()
    assert not counts[weights == 0].any()


def test_over_epochs_shares_are_met_and_no_use_repeats() -> None:
    weights = np.array([0.0] * 20 + [0.1] * 140 + [5.0] * 20 + [0.03] * 20)
    order = order_of(weights, seed=4)
    expected = weights / weights.sum() * 200
    steps = range(50 * 200 // 12)
    seen = Counter(pair for s in steps for pair in zip(*map(np.ndarray.tolist, order.batch(s)[:2]), strict=True))
    assert max(seen.values()) == 1  # (row, use) decides an augmentation
    counts = np.bincount([row for row, _ in seen], minlength=200)
    assert (np.abs(counts - 50 * expected) < 6).all()
    assert counts[20:].min() > 0  # 100 independent draws would miss some of the rarest


@pytest.mark.parametrize("window", [None, 2])
def test_a_step_can_be_asked_for_alone(window: int | None) -> None:
    weights = np.random.default_rng(0).exponential(size=100)
    forwards = order_of(weights, 3, window)
    expected = {step: forwards.batch(step) for step in range(40)}
    for step in (33, 0, 39, 20):
        for ours, theirs in zip(order_of(weights, 3, window).batch(step), expected[step], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_with_windows_an_epoch_has_the_same_samples() -> None:
    weights = np.random.default_rng(0).exponential(size=96)
    rows = [np.concatenate([order_of(weights, 3, w).batch(s).rows for s in range(8)]) for w in (None, 2)]
    assert sorted(rows[0]) == sorted(rows[1])
    assert list(rows[0]) != list(rows[1])


def test_other_seeds_and_epochs_have_other_samples() -> None:
    weights = np.random.default_rng(0).exponential(size=96)
    first, later, other = (
        sorted(np.concatenate([order_of(weights, seed).batch(s).rows for s in steps]).tolist())
        for seed, steps in ((0, range(8)), (0, range(8, 16)), (1, range(8)))
    )
    assert first != later
    assert first != other


def test_substitutes_follow_the_weights() -> None:
    order = order_of(np.array([0.0] * 50 + [1.0] * 45 + [9.0] * 5))
    drawn = np.array([order.substitute(position, 0) for position in range(400)])
    assert drawn.min() >= 50
    assert 150 < np.count_nonzero(drawn >= 95) < 250


def test_the_weighted_order_is_this_one() -> None:
    """Frozen values: a change of the order breaks every run that is under way and needs another ORDER_VERSION."""
    order = order_of(np.arange(20.0), batch=8)
    assert [order.batch(s).rows.tolist() for s in (0, 5)] == [
        [14, 17, 12, 8, 11, 6, 13, 15],
        [10, 6, 15, 8, 14, 16, 15, 12],
    ]


def write(path: Path, keys: list[str], weights: list[float | None]) -> Path:
    pq.write_table(pa.table({"key": keys, "weight": weights}), path)
    return path


def test_a_file_is_read_in_any_order_and_refused_when_it_is_of_other_shards(tmp_path: Path) -> None:
    keys, path = pa.array(["a", "b", "c"]), tmp_path / "w.parquet"
    clusters = np.array([[4, 1], [5, 1], [6, 0]], np.int32)
    write_curation(path, keys, clusters, np.array([0.5, 0, 2.5]))
    assert read_curation(path).column("clusters").to_pylist() == clusters.tolist()
    assert read_weights(path, keys).tolist() == [0.5, 0, 2.5]
    assert read_weights(write(path, ["c", "a", "b"], [3, 1, 2]), keys).tolist() == [1, 2, 3]
    for rows, numbers, said in (
        (["a", "b", "x"], [1, 1, 1], "is not of these shards: it has no row for c"),
        (["a", "b", "c", "d"], [1, 1, 1, 1], "it has 4 rows for 3 frames"),
        (["a", "b", "c"], [1, None, 1], "every weight must be a number"),
        (["a", "b", "c"], [1, -1.0, 1], "every weight must be a number"),
        (["a", "b", "c"], [0, 0, 0], "every weight must be a number"),
    ):
        with pytest.raises(UserError, match=said):
            read_weights(write(path, rows, numbers), keys)  # type: ignore[arg-type]
    path.write_bytes(b"PAR1")
    with pytest.raises(UserError, match="no Parquet file"):
        read_weights(path, keys)
    pq.write_table(pa.table({"weight": [1.0]}), path)
    with pytest.raises(UserError, match="key"):
        read_weights(path, keys)


def test_weights_are_read_once_for_all_ranks_and_made_anew_when_damaged(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = open_shards(shards, indexes=tmp_path / "indexes")
    weights = np.random.default_rng(0).exponential(size=len(opened)).round(3)
    path = write(tmp_path / "curation.parquet", opened.keys.to_pylist(), weights.tolist())
    expected, asked = SampleWeights.of(weights, opened.runs), []

    def counted(file: Path, keys: pa.StringArray) -> np.ndarray:
        asked.append(file)
        return read_weights(file, keys)

    monkeypatch.setattr("pretrain.data.order.mapped_weights.read_weights", counted)
    for _ in range(2):
        found = mapped_weights(path, opened)
        assert isinstance(found.ends, np.memmap) and len(asked) == 1
        np.testing.assert_array_equal(found.ends, expected.ends)
        assert (found.most, found.sha256) == (expected.most, expected.sha256)
    (kept,) = opened.index.glob("weights-*.npy")
    content = bytearray(kept.read_bytes())
    content[-5] ^= 1
    del found
    kept.write_bytes(content)
    np.testing.assert_array_equal(mapped_weights(path, opened).ends, expected.ends)
    assert len(asked) == 2 and f"the weights {kept} are damaged; they are made anew." in capsys.readouterr().out
    kept.unlink()
    np.testing.assert_array_equal(mapped_weights(path, opened).ends, expected.ends)
    write(path, opened.keys.to_pylist(), (2 * weights[::-1]).tolist())  # another curation under the same name
    assert mapped_weights(path, opened).sha256 != expected.sha256 and len(asked) == 4


def test_other_words_are_refused() -> None:
    for word in ("curation.csv", "{ers: many}", "3"):
        with pytest.raises(UserError, match=r"data\.sampling_weights"):
            load_config(PretrainConfig, None, ["run.dir=a", "data.shards=b", f"data.sampling_weights={word}"])


@pytest.mark.slow
def test_a_weighted_run_is_resumed_exactly_on_other_ranks_and_refuses_other_weights(
    shards: Path, tmp_path: Path
) -> None:
    keys = open_shards(shards).keys.to_pylist()
    weights: list[float | None] = [
        9.0 if key.startswith("video00") else 0.0 if key > "video02" else 1.0 for key in keys
    ]
    path = write(tmp_path / "curation.parquet", keys, weights)
    settings = {"data__sampling_weights": path, "schedule__total": "9 steps"}
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    run_ranks(words_of(whole, shards, **settings), 2)
    run_ranks(words_of(stopped, shards, **settings, run__stop_at="4 steps"), 2)
    run_ranks(words_of(stopped, shards, **settings), 2)
    assert_same_run(whole, stopped, 9)
    alone = tmp_path / "alone"
    run_ranks(words_of(alone, shards, **settings, run__stop_at="4 steps"), 1)
    seen = [[line["keys"] for line in metrics_of(run)] for run in (whole, alone)]
    assert seen[0][:4] == seen[1]
    counts = Counter(key for step in seen[0] for key in step)
    assert not any(key > "video02" for key in counts)
    write(path, keys, [1.0] * len(keys))
    said = run_ranks(words_of(alone, shards, **settings), 1, expect=2)
    assert "does not hold the weights that the run" in said
