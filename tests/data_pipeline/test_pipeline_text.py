"""Text in the image: what is painted over, what is spared, and what the audit says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import simplejpeg
from numpy.typing import NDArray

from benchmarks.composed import Label, detector_label, glittering, mucosa, opening, write
from benchmarks.screens import auditing, clip, filling, remains, screened
from data_pipeline import PipelineConfig
from data_pipeline.output.manifest import _text_audit, with_text_left
from data_pipeline.screening.audit import Audit
from data_pipeline.screening.screen_sources import SourceResult
from panendofm.imaging.frame_filters.text import Place, count_characters, read_text
from panendofm.imaging.frame_filters.text_filling import lines_of_text, move
from panendofm.records.shards import AuditedSource, TextAudit

Image = NDArray[np.uint8]


def place(text: str, confidence: float, height: float = 15, x: float = 50, y: float = 50, width: float = 80) -> Place:
    corners = [[x, y], [x + width, y], [x + width, y + height], [x, y + height]]
    return Place(np.array(corners, np.float32), 0.7, text, confidence)


def accepted(*places: Place, others: list[list[Place]] | None = None) -> list[str]:
    return [line.text for line in lines_of_text(places, others or [], 400, 0.06)]


def test_openings_and_folds_are_not_text() -> None:
    high = place("0", 0.9, height=60)
    assert (
        accepted(high, place("福", 0.9), place("三", 0.9, x=200), place("?", 0.8, x=300), place("Y", 0.51, y=300)) == []
    )


def test_what_is_read_is_text() -> None:
    assert accepted(place("DOE", 0.6)) == ["DOE"]
    assert accepted(place("8", 0.8)) == ["8"]
    assert accepted(place("00:09:12", 0.65, height=34)) == ["00:09:12"], "with a highlight beside it"
    assert accepted(place("00:09:12", 0.65, height=60)) == []


def test_unread_letters_beside_a_line_are_text_and_far_from_it_are_not() -> None:
    line, beside, far = place("12/03/2014", 0.97), place("", 0.0, y=75), place("", 0.0, y=200)
    assert accepted(line, beside, far) == ["12/03/2014", ""]


def test_badly_read_text_must_stay_where_it_is() -> None:
    weak = place("DO", 0.4)
    assert accepted(weak) == []
    assert accepted(weak, others=[[place("D0", 0.35, x=52)]]) == ["DO"]
    assert accepted(weak, others=[[place("D0", 0.35, x=200)]]) == []


def test_text_that_no_other_frame_has_there_moves() -> None:
    label, clock = place("polyp 0.88", 0.95), place("14:32:07", 0.95, x=300)
    assert move([label, clock], [[place("polyp 0.81", 0.95, x=150), clock]])
    assert not move([clock], [[place("14:32:08", 0.9, x=301)], []])
    assert not move([clock], []), "a single image"


def test_chinese_characters_count_where_several_stand_together() -> None:
    assert count_characters("姓名张三") == 4
    assert count_characters("福") == 0 and count_characters(".,:?!") == 0
    assert count_characters("Ålesund 3") == 8


def test_drawn_openings_are_spared_and_text_beside_them_is_not() -> None:
    """The detector takes all of these for text."""
    bare = [opening(mucosa(seed), (240, 200), radius, seed) for seed, radius in OPENINGS]
    assert [kept.row["text_filled"] for outcome in screened(bare, filling) for kept in outcome.kept] == [0.0] * len(
        bare
    )
    with_text = write(bare[0], Label("12/03/2014", 14), (60, 320))[0]
    (outcome,) = screened([with_text], filling)
    assert not remains(outcome.kept[0], with_text, bare[0])
    around = np.s_[150:250, 190:290]
    assert np.abs(outcome.kept[0].image[around].astype(int) - bare[0][around]).mean() < 6, "the opening is still there"


OPENINGS = [(6, 40), (7, 55)]


@pytest.mark.parametrize("degrees", [90, -90])
def test_text_that_runs_up_or_down_goes(degrees: float) -> None:
    clean = mucosa(2)
    text = write(clean, Label("DOE, JANE", 14, degrees=degrees), (240, 300 if degrees > 0 else 100))[0]
    (outcome,) = screened([text], filling)
    assert not remains(outcome.kept[0], text, clean)


def test_a_faint_name_on_small_frames_goes() -> None:
    """Among the highlights of single frames of 352x240 pixels it is lost here and read there; their median shows it."""
    clean = clip(glittering(0), 9)
    text = [write(frame, Label("Dr. NORDMANN", 8, opacity=0.35), (230, 14))[0] for frame in clean]
    (outcome,) = screened([text], auditing)
    assert len(outcome.kept) == 9
    left = [kept for kept in outcome.kept if remains(kept, text[kept.row["frame"]], clean[kept.row["frame"]])]
    assert len(left) <= 1, "a highlight that is painted into the gap may look like faint letters once"


def test_labels_that_move_are_found_in_every_frame() -> None:
    frames = clip(mucosa(4), 5)
    pairs = [detector_label(frame, (60 + 31 * i, 70 + 17 * (i % 3)), 0.8 + 0.02 * i) for i, frame in enumerate(frames)]
    (outcome,) = screened([[text for text, _ in pairs]], auditing)
    left = [kept.row["frame"] for kept in outcome.kept if remains(kept, *pairs[kept.row["frame"]])]
    assert len(outcome.kept) == 5 and left == []


def test_the_audit_reads_several_frames_of_a_source() -> None:
    frames = clip(mucosa(5), 6)
    half = [
        write(frame, Label("MUSTER ERIKA", 12), (100, 100))[0] if i % 2 else frame for i, frame in enumerate(frames)
    ]

    def unfilled(config: PipelineConfig) -> None:
        auditing(config)
        config.screen.text.inside = "keep"

    (outcome,) = screened([half], unfilled)
    assert outcome.audit["after_read"] == 3 and 1 <= outcome.audit["after_text"] <= 2


def test_counts_of_a_single_audited_frame_are_numbers() -> None:
    """A table of counts takes no truth values, and an empty Counter keeps what it is given."""
    audit = Audit(1, PipelineConfig().screen.text)
    gray = np.full((64, 64, 3), 90, np.uint8)
    audit.offer("a", simplejpeg.encode_jpeg(gray), lambda: gray)
    counts, left = audit.read()
    assert {type(count) for count in counts.values()} == {int} and counts["after_read"] == 1 and left == []


def test_a_rarely_shown_text_is_found_by_the_audit_and_then_in_every_frame() -> None:
    """The frame in which places of text are sought does not show it, nor does the median; the audit reads all five."""
    clean = clip(mucosa(6), 5)
    text = [write(f, Label("MUSTER ERIKA", 12), (100, 100))[0] if i in (1, 3) else f for i, f in enumerate(clean)]

    def thorough(config: PipelineConfig) -> None:
        auditing(config)
        config.screen.text.audit_frames_per_source = 5
        config.screen.text.probe_frames = 1

    (outcome,) = screened([text], thorough)
    assert len(outcome.kept) == 5 and outcome.audit["after_text"] == 0
    assert not any(remains(kept, text[kept.row["frame"]], clean[kept.row["frame"]]) for kept in outcome.kept)


def test_the_filter_keeps_nothing_that_the_audit_reads() -> None:
    """Text from faint to plain: some is at the edge of what can be read, and compression may tip it either way."""
    faint = [
        write(mucosa(seed), Label("DOE, JANE", 9 + seed, opacity=0.2 + 0.1 * seed), (150, 150))[0] for seed in range(6)
    ]

    def dropping(config: PipelineConfig) -> None:
        config.screen.text.reader = "filter"

    outcomes = screened(faint, dropping)
    assert sum(outcome.dropped.get("text", 0) for outcome in outcomes) >= 2
    assert not any(read_text(kept.image).found for outcome in outcomes for kept in outcome.kept)


def source(name: str, kept: int, read: int, text: int, moves: bool = False) -> SourceResult:
    audit = Counter(after_read=read, after_text=text)
    return SourceResult(f"{name}.mp4", "ers", name, kept=kept, audit=audit, text_moves=moves)


def test_sources_with_text_are_named() -> None:
    sources = [source("a", 9, 4, 0), source("b", 9, 4, 2, True), source("c", 0, 4, 4), source("d", 1, 0, 0)]
    audit = _text_audit(sources)
    assert audit.after_read == 12 and audit.sources_read == 2 and audit.sources_with_moving_text == 1
    assert audit.sources_with_text == {"b": AuditedSource(4, 2)}
    assert [s.source for s in with_text_left(sources)] == ["b"]
    assert _text_audit([source("d", 1, 0, 0)]) == TextAudit(), "nothing was read"


@pytest.fixture(autouse=True)
def one_thread() -> None:
    import cv2

    cv2.setNumThreads(1)
