"""Commands in lanes: side by side where they may be, in order where they must, and a kind end when one fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.steps import Step, run_parts, run_step
from panendofm.runtime.errors import UserError

# MEET touches its own file and waits for another's; ORDER writes that it came, and how many threads it may use.
HELPER = """
import os, pathlib, sys, time
kind, own, *other = sys.argv[1:]
if kind == "meet":
    pathlib.Path(own).touch()
    until = time.monotonic() + 60
    while not pathlib.Path(other[0]).exists():
        if time.monotonic() > until:
            sys.exit("the other never came")
        time.sleep(0.01)
elif kind == "order":
    with open(own, "a") as stream:
        stream.write(f"{other[0]} {os.environ.get('OMP_NUM_THREADS', 'all')}\\n")
elif kind == "fail":
    sys.exit("error: it can't be had.")
"""


@pytest.fixture(autouse=True)
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "step_helper.py").write_text(HELPER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def step(title: str, *words: str, finished: Path | None = None) -> Step:
    return Step(title, ("step_helper", *words), Path(title), finished)


def test_a_failing_step_ends_with_its_last_words_and_its_log(tmp_path: Path) -> None:
    wrong = Step("draw", ("data_pipeline", "synthesise", str(tmp_path / "x")), tmp_path / "x")
    with pytest.raises(UserError) as caught:
        run_step(wrong, tmp_path / "log")
    text = str(caught.value)
    assert "ended with exit code 2" in text
    assert "did you mean 'synthesize'?" in text
    assert str(tmp_path / "log") in text


def test_lanes_run_side_by_side(tmp_path: Path) -> None:
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    run_parts([[[step("a", "meet", a, b)], [step("b", "meet", b, a)]]], tmp_path / "logs")


def test_a_part_waits_for_the_one_before_and_has_all_cores_when_it_is_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    out = str(tmp_path / "order")
    there = tmp_path / "there"
    there.touch()
    first = [[step("1", "order", out, "1"), step("2", "order", out, "2")], [step("3", "fail", finished=there)]]
    run_parts([first, [[step("4", "order", out, "4")]]], tmp_path / "logs")
    assert Path(out).read_text() == "1 3\n2 3\n4 all\n"
    said = capsys.readouterr().out
    assert "[3/4] 3: is there: 3" in said
    assert said.count("took") == 3


def test_after_a_failure_no_further_step_is_begun(tmp_path: Path) -> None:
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    failing = [step("b", "meet", b, a), step("fails", "fail", "")]
    beside = [step(f"a{number}", "meet", a, b) for number in range(200)]
    later = [[step("later", "order", str(tmp_path / "later"), "1")]]
    with pytest.raises(UserError, match=r"step_helper fail .*ended with exit code 1 \(error: it can't be had\.\)"):
        run_parts([[failing, beside], later], tmp_path / "logs")
    assert not (tmp_path / "later").exists()
    assert len(list((tmp_path / "logs").iterdir())) < 100
