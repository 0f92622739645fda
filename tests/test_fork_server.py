"""The server of forked processes has imported what it says, whoever used it first, and forks real commands."""

from __future__ import annotations

import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import fork_server

TESTS = Path(__file__).resolve().parent


def tell_modules(names: tuple[str, ...], pipe: Connection) -> None:
    pipe.send([name for name in names if name not in sys.modules])


def test_a_new_process_has_everything_imported() -> None:
    ours, theirs = fork_server.pipe()
    process = fork_server.start(tell_modules, fork_server.PRELOADED, theirs)
    assert ours.recv() == []
    process.join()


def test_no_other_file_chooses_what_is_imported() -> None:
    choosing = [path.name for path in TESTS.rglob("*.py") if "set_forkserver_" + "preload" in path.read_text()]
    assert choosing == ["fork_server.py"]


def test_a_command_has_its_own_words_folder_environment_output_and_exit_code(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text(
        "import os, sys\n"
        "print(*sys.argv[1:], os.getcwd(), os.environ['WORD'], 'HOME' in os.environ)\n"
        "print('complaint', file=sys.stderr)\n"
        "sys.exit(3)\n"
    )
    variables = {"WORD": "here", "PYTHONPATH": str(tmp_path)}
    done = fork_server.run_module("told", "a", "b=c", cwd=tmp_path, environment=variables)
    assert done.stdout == f"a b=c {tmp_path} here False\n"
    assert (done.stderr, done.returncode) == ("complaint\n", 3)
    assert os.environ.get("WORD") is None
