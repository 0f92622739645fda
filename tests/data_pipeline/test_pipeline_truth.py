"""A run over the five synthetic corpora against the truth file."""

from __future__ import annotations

from pathlib import Path

import pytest
from pipeline_runs import FinishedRun

from data_pipeline.run import trace
from panendofm.synthetic.truth import Source, Truth, read_truth


@pytest.fixture(scope="module")
def truth(synthetic_corpus: Path) -> Truth:
    return read_truth(synthetic_corpus)


def place_of(run: FinishedRun, path: str) -> tuple[str, int | None]:
    """The run's source that a path of the truth belongs to, and the frame's index when it is one file of a folder."""
    if path in run.sources:
        return path, None
    folder, _, name = path.rpartition("/")
    digits = int("".join(c for c in name.partition(".")[0] if c.isdigit()))
    return folder, digits - 1


def kept_frames(run: FinishedRun, source: str) -> set[int]:
    wanted = run.sources[source]["source"]
    return {row["frame"] for row in run.frames if row["source"] == wanted}


def test_all_five_corpora_are_in_the_shards(finished_run: FinishedRun) -> None:
    assert {row["corpus"] for row in finished_run.frames} == {
        "colonoscopicds",
        "ldpolypvideo",
        "ers",
        "ri-vce",
        "endofm-pretrain",
    }


def test_no_frame_of_a_planted_leak_is_kept_and_each_is_found(finished_run: FinishedRun, truth: Truth) -> None:
    groups = {image.path: image.group for image in truth.evaluation}
    assert len(truth.leaks) >= 10
    for leak in truth.leaks:
        source, index = place_of(finished_run, leak.path)
        single = source == leak.path and leak.first == leak.last == 0
        span = {0} if single else {index} if index is not None else set(range(leak.first, leak.last + 1))
        assert not span & kept_frames(finished_run, source), leak
        found = [hit for hit in finished_run.sources[source]["leaks"] if hit["frame"] in span]
        assert found, leak
        expected = groups[leak.evaluation_image]
        for hit in found:  # an image of the same scene, a moment later, is as good a find
            assert hit["image"] == leak.evaluation_image or (expected is not None and groups[hit["image"]] == expected)


def test_guard_loses_at_most_half_a_percent_of_clean_frames(finished_run: FinishedRun, truth: Truth) -> None:
    leaked = set()
    for leak in truth.leaks:
        source, index = place_of(finished_run, leak.path)
        single = source == leak.path and leak.first == leak.last == 0
        span = [0] if single else [index] if index is not None else range(leak.first, leak.last + 1)
        leaked |= {(source, frame) for frame in span}
    # A copy of a leaking video leaks as well.
    copies = {copy.path: copy.of for copy in truth.duplicates}
    false = [
        (source, hit["frame"], hit["image"], hit["correlation"])
        for source, row in finished_run.sources.items()
        for hit in row["leaks"]
        if (copies.get(source, source), hit["frame"]) not in leaked
    ]
    seen = sum(row["seen"] for row in finished_run.sources.values())
    assert seen > 500
    assert len(false) <= 0.005 * seen, false


def test_every_planted_copy_is_kept_once(finished_run: FinishedRun, truth: Truth) -> None:
    assert len(truth.duplicates) >= 4
    for copy in truth.duplicates:
        pair = [place_of(finished_run, path)[0] for path in (copy.path, copy.of)]
        rows = [finished_run.sources[source] for source in pair]
        dropped = [row for row in rows if row["copy_of"] is not None]
        assert len(dropped) == 1, copy
        assert dropped[0]["copy_of"] in [row["source"] for row in rows], copy
        assert dropped[0]["kept"] == 0 and not kept_frames(finished_run, pair[rows.index(dropped[0])])


def test_no_other_source_is_taken_for_a_copy(finished_run: FinishedRun, truth: Truth) -> None:
    involved = {place_of(finished_run, p)[0] for copy in truth.duplicates for p in (copy.path, copy.of)}
    assert [source for source, row in finished_run.sources.items() if row["copy_of"] and source not in involved] == []


def test_every_planted_defect_is_reported_with_its_reason(finished_run: FinishedRun, truth: Truth) -> None:
    problems = {
        f"{row['corpus']}/{path}": why for row in finished_run.sources.values() for path, why in row["problems"]
    }
    words = {"truncated": "", "no_index": "opened", "zero_bytes": "empty", "wrong_extension": "not a"}
    assert len(truth.defects) >= 5
    for defect in truth.defects:
        assert defect.path in problems, defect
        assert words[defect.what] in problems[defect.path], (defect, problems[defect.path])
    assert set(problems) == {defect.path for defect in truth.defects}, "no whole file may be called broken"


def test_a_truncated_video_still_gives_its_first_frames(finished_run: FinishedRun, truth: Truth) -> None:
    truncated = [defect.path for defect in truth.defects if defect.what == "truncated"]
    assert truncated
    for path in truncated:
        assert len(kept_frames(finished_run, path)) >= 3


FAULT_REASONS = {"dark": "too_dark", "washed_out": "washed_out", "blurred": "blurred"}


def test_spoiled_frames_are_dropped_and_good_ones_kept(finished_run: FinishedRun, truth: Truth) -> None:
    spoiled_kept, good, good_kept = [], 0, 0
    for source in truth.sources:
        if source.path not in finished_run.sources or finished_run.sources[source.path]["copy_of"]:
            continue
        kept = kept_frames(finished_run, source.path)
        for fault in source.faults:
            if fault.what in FAULT_REASONS:
                spoiled_kept += [(source.path, fault.what, i) for i in kept if fault.first <= i <= fault.last]
        good += _sampled_good_frames(source, truth, finished_run)
        good_kept += sum(not _is_spoiled(source, i) for i in kept)
    assert spoiled_kept == []
    assert good > 300 and good_kept >= 0.95 * good


def _is_spoiled(source: Source, index: int) -> bool:
    return any(fault.first <= index <= fault.last for fault in source.faults)


def _sampled_good_frames(source: Source, truth: Truth, run: FinishedRun) -> int:
    """Frames seen less those that were dropped for a fault of the image or as a leak."""
    row = run.sources[source.path]
    leaks = len(row["leaks"])
    spoiled = sum(count for reason, count in row["dropped"] if reason in (*FAULT_REASONS.values(), "frozen"))
    return int(row["seen"]) - leaks - spoiled


def test_frozen_stretches_give_one_frame(finished_run: FinishedRun, truth: Truth) -> None:
    stretches = 0
    for source in truth.sources:
        row = finished_run.sources.get(source.path)
        if row is None or row["copy_of"]:
            continue
        kept = kept_frames(finished_run, source.path)
        for fault in source.faults:
            if fault.what == "frozen":
                stretches += 1
                assert len([i for i in kept if fault.first <= i <= fault.last]) <= 1, (source.path, fault)
    assert stretches >= 2


def test_each_frame_can_be_traced_to_its_source(finished_run: FinishedRun) -> None:
    by_key = {row["key"]: row for row in finished_run.frames}
    source = finished_run.sources["ers/0001/seq_01/frames"]
    frame = min(kept_frames(finished_run, "ers/0001/seq_01/frames"))
    key = trace(finished_run.config, "ers", source["path"], frame)
    assert by_key[key]["source"] == source["source"] and by_key[key]["frame"] == frame
