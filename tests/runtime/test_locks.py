"""A run directory has one writer at a time, and a dead one does not block it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from panendofm.runtime.errors import UserError
from panendofm.runtime.locks import directory_lock

HOLDER = """
import sys, time
from panendofm.runtime.locks import directory_lock
with directory_lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_writer_is_told_who_holds_it_and_a_killed_holder_frees_it(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    try:
        with pytest.raises(UserError, match=rf"in use by process {holder.pid} on "), directory_lock(tmp_path):
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with directory_lock(tmp_path):
        pass


def test_it_can_be_taken_again_after_it_was_given_back(tmp_path: Path) -> None:
    for _ in range(2):
        with directory_lock(tmp_path / "new"):
            pass
