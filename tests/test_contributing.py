"""The map in CONTRIBUTING.md is the territory."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def walks() -> dict[str, list[str]]:
    parts = re.split(r"^\*\*(A .+?)\*\*$", TEXT, flags=re.MULTILINE)[1:]
    return {
        title: re.findall(r"^\d+\. `([^`]+)`", body.split("\n## ")[0], flags=re.MULTILINE)
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    }


def test_walks_visit_files_that_exist_and_none_twice() -> None:
    assert list(walks()) == ["A frame into a shard", "A batch into a checkpoint", "A checkpoint into a table of probes"]
    for title, files in walks().items():
        assert len(files) >= 10, title
        assert [file for file in files if not (ROOT / file).is_file()] == [], title
        assert len(files) == len(set(files)), title
    assert len(walks()["A batch into a checkpoint"]) <= 20


def test_every_room_is_on_the_map() -> None:
    rows = dict(re.findall(r"^\| \d \| `([\w/]+)/` \| (.+) \|$", TEXT, flags=re.MULTILINE))
    stages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks", "experiments"}
    parts = {f"panendofm/{path.parent.name}" for path in ROOT.glob("panendofm/*/__init__.py")}
    assert set(rows) == (stages - {"panendofm"}) | parts
    for package, subject in rows.items():
        rooms = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
        missing = {room for room in rooms if f"`{room}/`" not in subject}
        assert not missing, f"{package}: {missing}"
