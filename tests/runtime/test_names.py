"""Names from outside, made safe for logs, tables and publication."""

from __future__ import annotations

import os

import pytest

from panendofm.runtime.console import say
from panendofm.runtime.names import printable, without_folders


def test_what_a_terminal_or_a_log_would_obey_is_spelt_out() -> None:
    assert printable("\x1b[31mred\nline\r\x9b") == r"\x1b[31mred\x0aline\x0d\x9b"
    assert printable("a\u2028b\u202ec") == r"a\u2028b\u202ec"
    assert printable(os.fsdecode(b"latin-\xfc.png")) == r"latin-\xfc.png"
    assert printable("Ösophagus 内视镜 – fine") == "Ösophagus 内视镜 – fine"


def test_the_console_obeys_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    say("read \x1b]0;title\x07 and " + os.fsdecode(b"\xff"))
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\x07" not in said and r"\xff" in said


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("shards: /data/secret/shards", "shards: shards"),
        ("path: '/home/mueller/a b'", "path: 'a b'"),
        ("guard: [/a/b/kvasir, /c/polyps/]", "guard: [kvasir, polyps]"),
        ("see https://example.org/a/b and 3/4 of and/or", "see https://example.org/a/b and 3/4 of and/or"),
        ("relative runs/a/best stays", "relative runs/a/best stays"),
        ("~/runs/a: x", "a: x"),
    ],
)
def test_only_the_last_part_of_absolute_paths_is_published(text: str, left: str) -> None:
    assert without_folders(text) == left
