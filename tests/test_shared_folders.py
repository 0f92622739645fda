"""A folder for all workers is made once, by the first to ask; one whose making has failed is made anew."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from shared_folders import SharedFolder, make_once


@pytest.fixture
def shared(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> SharedFolder:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setattr(tmp_path_factory, "_basetemp", tmp_path_factory.mktemp("common"))
    return make_once(tmp_path_factory)


def test_many_ask_and_one_makes(shared: SharedFolder) -> None:
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        folder.mkdir()
        time.sleep(0.1)
        (folder / "content").touch()

    with ThreadPoolExecutor(4) as askers:
        folders = list(askers.map(lambda _: shared("things", make), range(4)))
    assert len(made) == 1 and set(folders) == {made[0]}
    assert (folders[0] / "content").exists()


def test_what_a_failed_maker_left_is_not_used(shared: SharedFolder) -> None:
    def fail(folder: Path) -> None:
        folder.mkdir()
        (folder / "half").touch()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        shared("things", fail)
    again = shared("things", lambda folder: folder.mkdir())
    assert list(again.iterdir()) == []
