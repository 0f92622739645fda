"""Every block of the Medico golden file: figures, intervals, speed, rankings, timelines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from panendofm.challenge.profile import LabelProfile, profiles_of
from panendofm.scoring.classification import averages, rates
from panendofm.scoring.classification.confusion import multiclass_mcc
from panendofm.scoring.detection import timeline
from panendofm.scoring.statistics import ranking
from panendofm.scoring.statistics.binomial import wilson
from panendofm.scoring.statistics.ranking import Entry
from panendofm.scoring.statistics.speed import speed_of

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "metrics_medico.json").read_text())
PROFILES = profiles_of(LabelProfile)
MATRICES = ["medico2018_team_SatM", "toy_four_classes", "class_without_test_pictures", "constant_answer"]


def near(expected: Any) -> Any:
    return pytest.approx(expected, abs=1e-9, nan_ok=True)


def numbers(values: list[float | None]) -> list[float]:
    return [float("nan") if v is None else v for v in values]


@pytest.fixture(params=MATRICES)
def block(request: pytest.FixtureRequest) -> tuple[np.ndarray, dict[str, Any]]:
    found = GOLDEN[request.param]
    return np.array(found["confusion"], float), found["figures"]


def test_figures_of_each_class(block: tuple[np.ndarray, dict[str, Any]]) -> None:
    confusion, expected = block
    counts = averages.one_against_rest(confusion)
    for name in ("tp", "fp", "fn", "tn"):
        assert getattr(counts, name).tolist() == expected["per_class"][name]
    every = averages.all_class_rates(confusion)
    for name in ("recall", "precision", "specificity", "npv", "accuracy", "f1", "mcc"):
        assert every[name].tolist() == near(numbers(expected["per_class"][name])), name


def test_one_number_from_many_classes(block: tuple[np.ndarray, dict[str, Any]]) -> None:
    confusion, expected = block
    assert confusion.sum() == expected["n"]
    sums = averages.summed(averages.one_against_rest(confusion))
    assert {name: getattr(sums, name) for name in ("tp", "fp", "fn", "tn")} == expected["sums"]
    assert multiclass_mcc(confusion) == near(expected["mcc"])
    micro = PROFILES["medico2017"].metrics(confusion)
    renamed = {**expected["micro"], "accuracy": expected["micro"]["accuracy_one_vs_rest"]}
    renamed["mcc"] = renamed.pop("mcc_pooled")
    del renamed["accuracy_one_vs_rest"]
    assert micro == near(renamed)
    for rule, expected_means in (
        (averages.macro(confusion), expected["macro_over_defined"]),
        (averages.macro(confusion, averages.mean_with_zeros), expected["macro_undefined_as_zero"]),
        (averages.macro_with_test_images(confusion), expected["macro_over_classes_with_test_pictures"]),
    ):
        for name, value in expected_means.items():
            if name == "classes":
                assert (confusion.sum(1) > 0).sum() == value
            else:
                assert rule[name] == near(value), name


def test_a_batch_of_matrices_gives_what_each_gives_alone() -> None:
    one, other = np.array(GOLDEN["toy_four_classes"]["confusion"], float), np.eye(4) * 3
    for profile in PROFILES.values():
        together = profile.metrics(np.stack([one, other]))
        for place, alone in enumerate((one, other)):
            expected = {n: float(v) for n, v in profile.metrics(alone).items()}
            assert {n: float(v[place]) for n, v in together.items()} == near(expected)


def test_the_published_row_of_2018_is_reproduced_to_four_digits() -> None:
    found = GOLDEN["medico2018_team_SatM"]
    confusion, printed = np.array(found["confusion"], float), found["printed_2018_row"]
    profile = PROFILES["medico2018"]
    figures = profile.metrics(confusion)
    for name in ("recall", "precision", "specificity", "accuracy", "f1", "mcc"):
        assert ranking.four_digits(float(figures[name])) == round(printed[name] * 10_000), name
    counts = averages.summed(averages.one_against_rest(confusion))
    assert profile.counts_are_means
    for name in ("tp", "tn", "fp"):
        assert int(float(getattr(counts, name)) / 16 * 100) == round(printed[name] * 100), name
    # The other averages are other numbers: a profile that mixes them up is seen.
    assert abs(float(PROFILES["biomedia2019"].metrics(confusion)["recall"]) - printed["recall"]) > 0.005
    assert abs(float(averages.pooled_mcc(confusion)) - printed["mcc"]) > 0.001


PRINTED_TABLES = GOLDEN["published_tables"]["tables"]


@pytest.mark.parametrize(
    "row",
    [row for name, rows in PRINTED_TABLES.items() if name.startswith(("medico2017", "biomedia2019")) for row in rows],
    ids=lambda row: row["team"],
)
def test_printed_sums_give_the_recomputed_figures(row: dict[str, Any]) -> None:
    if row["recomputed"] is None:
        assert row["tp"] is None
        return
    counts = rates.Counts.of(row["tp"], row["fp"], row["fn"], row["tn"])
    assert rates.matthews(counts) == near(row["recomputed"]["mcc_pooled"])
    assert rates.recall(counts) == near(row["recomputed"]["accuracy_exact_match"])


def test_binary_counts() -> None:
    found = GOLDEN["binary"]
    counts = rates.Counts.of(**found["counts"])
    assert {name: float(value) for name, value in rates.all_rates(counts).items()} == near(found["expected"])


@pytest.mark.parametrize("case", GOLDEN["binomial_intervals_95"], ids=lambda c: f"{c['k']} of {c['n']}")
def test_binomial_intervals(case: dict[str, Any]) -> None:
    assert wilson(case["k"], case["n"]) == near(tuple(case["wilson"]))


def test_no_trials_have_no_interval() -> None:
    assert wilson(0, 0) is None


def test_speed() -> None:
    found = GOLDEN["speed"]
    speed, expected = speed_of(np.array(found["time_ms"])), found["expected"]
    assert (speed.mean_ms, speed.fps, speed.median_ms, speed.p95_ms) == near(
        (expected["mean_ms"], expected["fps"], expected["median_ms"], expected["p95_ms_linear"])
    )
    assert speed.real_time() == found["real_time"]
    assert speed.believable
    assert not speed_of(np.array(found["time_ms"]) * 1000).believable  # seconds taken for milliseconds


def entries(rows: list[dict[str, Any]]) -> list[Entry]:
    names = ("team", "recall", "specificity", "fps")
    return [Entry(score=row["mcc"], **{name: row[name] for name in names}) for row in rows]


RANKED = {**GOLDEN["efficiency_ranking"], "toy": GOLDEN["efficiency_ranking_toy"]}
TABLES = {**GOLDEN["published_tables"]["tables"], "toy": GOLDEN["efficiency_ranking_toy"]["submissions"]}


@pytest.mark.parametrize("name", RANKED)
def test_efficiency_rankings_by_both_readings(name: str) -> None:
    rows, expected = entries(TABLES[name]), RANKED[name]

    def teams(chosen: list[Entry]) -> list[str]:
        return [entry.team for entry in chosen]

    assert teams(ranking.by_speed_above_threshold(rows)) == expected["threshold_then_speed"]
    refused = sorted(entry.team for entry in rows if not ranking.efficient(entry))
    assert refused == expected["refused_below_85_percent"]
    assert teams(ranking.by_quality_in_real_time(rows)) == expected["real_time_45_then_mcc"]
    assert teams(ranking.pareto_front(rows)) == expected["pareto_front_best_mcc_first"]


def test_ties_at_four_digits_go_to_the_faster_then_to_fewer_training_pictures() -> None:
    rows = [
        Entry("slow", 0.93975, fps=10.0),
        Entry("fast", 0.93971, fps=20.0),
        Entry("many", 0.9, training_images=500),
        Entry("few", 0.90001, training_images=50),
        Entry("unsaid", 0.90002),
    ]
    assert [entry.team for entry in ranking.by_quality(rows)] == ["fast", "slow", "few", "many", "unsaid"]
    runs = [Entry("a", 0.8, run="1"), Entry("b", 0.7), Entry("a", 0.9, run="2")]
    assert [(e.team, e.run) for e in ranking.best_runs(runs)] == [("a", "2"), ("b", "")]


def test_clinical_applicability() -> None:
    rows = {(r["year"], r["team"]): r for r in GOLDEN["clinical_applicability"]["rows"] if "our_rule" in r}
    ours = {
        name: ranking.Applicability(
            row["printed"]["mcc_rank"],
            ranking.robustness_rank(row["mcc"], row["mcc_second_run"]),
            ranking.speed_rank(row["fps"]),
        )
        for name, row in rows.items()
    }
    places = ranking.clinical_ranks(ours)
    for name, row in rows.items():
        rule = row["our_rule"]
        assert ours[name].robustness_rank == rule["robustness_rank"], name
        assert ours[name].speed_rank == rule["speed_rank"] == row["printed"]["speed_rank"], name
        assert ours[name].mean_of_ranks == near(rule["mean_of_ranks"])
        assert places[name] == rule["clinical_rank"], name


def test_segments_of_a_labeled_video() -> None:
    found = GOLDEN["video_report"]
    labels, fps, expected = found["labels"], found["fps"], found["plain"]
    segments = timeline.segments_of(labels)
    assert [
        {
            "first_frame": s.first,
            "end_frame": s.end,
            "label": s.label,
            "from": timeline.clock(s.first / fps),
            "to": timeline.clock(s.end / fps),
            "seconds": near(s.frames / fps),
        }
        for s in segments
    ] == expected["segments"]
    assert timeline.shares(labels) == near(expected["shares"])
    assert timeline.order_of_events(segments, {"blurry-nothing"}) == expected["brief"]


@pytest.mark.parametrize("point", GOLDEN["zones"]["points"], ids=lambda p: f"{p['x']}, {p['y']}")
def test_zones(point: dict[str, Any]) -> None:
    assert timeline.zone(point["x"], point["y"]) == point["zone"]


def test_short_segments_join_the_longer_neighbour() -> None:
    segments = timeline.segments_of(["a"] * 6 + ["b"] * 2 + ["a"] * 3 + ["c"] * 4)
    assert timeline.join_short(segments, 3) == [timeline.Segment(0, 11, "a"), timeline.Segment(11, 15, "c")]
    assert timeline.join_short(segments, 1) == segments
    assert timeline.join_short(segments[:1], 100) == segments[:1]


def test_smoothed_probabilities_are_window_means() -> None:
    values = np.random.default_rng(0).random((9, 3))
    smooth = timeline.smooth_probabilities(values, 5)
    for i in range(9):
        assert smooth[i] == near(values[max(0, i - 2) : i + 3].mean(0))
    assert timeline.smooth_probabilities(values, 1) == near(values)


def test_segments_against_the_truth() -> None:
    truth = timeline.segments_of(["a"] * 10 + ["b"] * 10 + ["a"] * 10)
    told = timeline.segments_of(["a"] * 12 + ["b"] * 4 + ["c"] * 4 + ["a"] * 10)
    result = timeline.compare_segments(truth, told)
    # b overlaps in 4 of 10 frames: not found; both a are, each by its own segment.
    assert (result.events, result.found, result.reported) == (3, 2, 4)
    assert result.f1 == near(4 / 7)
    assert result.right_frames == near(24 / 30)
    assert result.error_of_shares == near({"a": 2 / 30, "b": -6 / 30, "c": 4 / 30})
    assert timeline.compare_segments(truth, truth).share_found == 1


def test_as_many_events_are_found_as_can_be_at_once() -> None:
    """Taking the best overlap first leaves one of four events without its segment."""
    truth = [timeline.Segment(0, 10, "a"), timeline.Segment(10, 20, "a")]
    # The first segment fits both events, the second only the first event, and worse than the first segment does.
    told = [timeline.Segment(4, 14, "a"), timeline.Segment(0, 2, "a")]
    assert truth[0].iou(told[0]) > truth[0].iou(told[1]) > 0.1 and truth[1].iou(told[1]) == 0
    assert truth[0].iou(told[0]) > truth[1].iou(told[0]) > 0.1
    assert timeline.compare_segments(truth, told, 0.1).found == 2
    assert timeline.compare_segments(truth, [], 0.1).found == timeline.compare_segments([], told, 0.1).found == 0
