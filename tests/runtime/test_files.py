"""Nothing is ever half-written, whatever happens to the writer."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panendofm.runtime.errors import UserError
from panendofm.runtime.files import (
    TEMPORARY_MARK,
    append_json_line,
    atomic_directory,
    atomic_file,
    failed_checksums,
    read_json,
    read_json_lines,
    remove_leftovers,
    replace_link,
    safe_name,
    write_checksums,
    write_json,
    write_text,
)

# Writes version after version of one file and one folder. Each version is one letter repeated, so a torn one shows.
WRITER = """
import itertools, sys
from pathlib import Path
from panendofm.runtime.files import atomic_directory, write_bytes, replace_link
root = Path(sys.argv[1])
for n in itertools.count(int(sys.argv[2])):
    letter = bytes([65 + n % 26])
    write_bytes(root / "file", letter * 3_000_000)
    with atomic_directory(root / f"folder_{n}") as folder:
        for part in "abc":
            (folder / part).write_bytes(letter * 500_000)
    replace_link(root / "latest", f"folder_{n}")
    print(n, flush=True)
"""


def test_appended_lines_are_whole_and_come_after_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    for value in ({"a": 1}, {"text": "two\nlines, «é»"}):
        append_json_line(path, value)
    assert read_json_lines(path) == [{"a": 1}, {"text": "two\nlines, «é»"}]
    with pytest.raises(UserError, match=r"lines\.jsonl"):
        append_json_line(path / "below", {})


def test_a_writer_killed_at_any_moment_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    chance = random.Random(0)
    reached, interrupted = 0, 0
    for _ in range(12):
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(reached)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        reached = int(writer.stdout.readline()) + 1  # it is in its loop now
        time.sleep(chance.uniform(0, 0.05))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        reached = max([reached, *(int(line) + 1 for line in writer.stdout)]) + 1
        content = (tmp_path / "file").read_bytes()
        assert len(content) == 3_000_000
        assert len(set(content)) == 1
        folders = [p for p in tmp_path.iterdir() if p.name.startswith("folder_")]
        assert folders
        for folder in folders:
            assert {p.name: p.stat().st_size for p in folder.iterdir()} == dict.fromkeys("abc", 500_000)
        assert (tmp_path / "latest" / "a").stat().st_size == 500_000
        interrupted += len(remove_leftovers(tmp_path))
        assert not [p for p in tmp_path.iterdir() if TEMPORARY_MARK in p.name]
    assert interrupted > 0, "no kill fell into a write: the test would not see a torn file"


def test_a_link_that_was_left_half_written_goes_and_not_what_it_points_at(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("x")
    for name, target in (("whole", "precious"), ("dangling", "nowhere")):
        (tmp_path / f".{name}{TEMPORARY_MARK}1").symlink_to(target)
    (tmp_path / f".folder{TEMPORARY_MARK}1").mkdir()
    assert len(remove_leftovers(tmp_path)) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    assert (tmp_path / "precious" / "file").read_text() == "x"


def test_an_error_inside_the_block_leaves_the_old_content_and_no_litter(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "old")
    with pytest.raises(RuntimeError), atomic_file(tmp_path / "a") as stream:
        stream.write(b"half of the ne")
        raise RuntimeError
    with pytest.raises(RuntimeError), atomic_directory(tmp_path / "folder") as folder:
        (folder / "x").write_text("x")
        raise RuntimeError
    assert (tmp_path / "a").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_full_disk_is_one_sentence_and_keeps_the_old_file(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "old")
    with pytest.raises(UserError, match=r"cannot write .*a: the disk is full; free some space"):  # noqa: SIM117
        with atomic_file(tmp_path / "a"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert (tmp_path / "a").read_text() == "old"


def test_a_folder_that_holds_something_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("x")
    with pytest.raises(UserError, match="exists already"), atomic_directory(tmp_path / "full"):
        pass
    assert (tmp_path / "full" / "precious").read_text() == "x"
    (tmp_path / "empty").mkdir()
    with atomic_directory(tmp_path / "empty") as folder:
        (folder / "x").write_text("x")
    assert (tmp_path / "empty" / "x").read_text() == "x"


def test_a_folder_below_a_file_is_one_sentence(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "x")
    with pytest.raises(UserError, match="a part of the path is a file"):
        write_text(tmp_path / "a" / "b" / "c", "x")


def test_json_is_stable_strict_and_its_errors_name_the_file(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": 1, "a": [1.5, None]})
    write_json(tmp_path / "b.json", {"a": [1.5, None], "b": 1})
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert read_json(tmp_path / "a.json") == {"a": [1.5, None], "b": 1}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", float("nan"))
    write_text(tmp_path / "c.json", "{")
    with pytest.raises(UserError, match=r"c\.json: it is not valid JSON"):
        read_json(tmp_path / "c.json")
    with pytest.raises(UserError, match=r"d\.json: it does not exist"):
        read_json(tmp_path / "d.json")


def test_checksums_find_a_changed_and_a_missing_file_and_sha256sum_agrees(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_text(tmp_path / name, name * 10)
    write_checksums(tmp_path, ["c", "a", "b"])
    assert failed_checksums(tmp_path) == []
    assert subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=False).returncode == 0
    (tmp_path / "a").write_text("a" * 9 + "b")
    (tmp_path / "c").unlink()
    assert failed_checksums(tmp_path) == ["a", "c"]


def test_a_link_moves_in_one_step(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        replace_link(tmp_path / "best", name)
        assert (tmp_path / "best").resolve() == tmp_path / name
    assert sorted(p.name for p in tmp_path.iterdir()) == ["best", "one", "two"]


@given(st.text(), st.text())
def test_safe_names_are_safe_and_distinct(one: str, other: str) -> None:
    name = safe_name(one)
    assert name
    assert "/" not in name
    assert name not in (".", "..")
    assert not name.startswith(".")
    assert name.isascii()
    assert len(name) <= 120
    if one != other:
        assert name != safe_name(other)


def test_a_plain_name_is_left_alone() -> None:
    assert safe_name("step_0012500.pt") == "step_0012500.pt"
    assert safe_name("../../etc/passwd").startswith("etc_passwd-")


def test_two_writers_of_one_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="something is there already"), atomic_directory(tmp_path / "out") as late:
        (late / "a").write_text("late")
        with atomic_directory(tmp_path / "out") as early:
            (early / "a").write_text("early")
    assert (tmp_path / "out" / "a").read_text() == "early"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
