"""Names from outside (files, folders, patients' labels) as text that is safe to show and to store.

A file name may hold bytes that are no UTF-8, escape sequences for the terminal, or line breaks that would forge a line
of a log. What is shown or written shows such characters as `\\x1b`; the file itself is always opened by its real name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# C0 and C1 control characters, the line and paragraph separators, marks that turn the direction of writing, and
# Python's stand-ins for bytes that are not UTF-8.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# Not after a word or a sign of a web address; parts may hold anything but white space, quotes and colons.
_ABSOLUTE = re.compile(r"(?<![\w:/.~-])(?:~|[A-Za-z]:)?/(?:[^\s/'\":,\[\]]+/)*?([^\s/'\":,\[\]]+)/?(?![^\s'\":,\[\]])")


def printable(name: object) -> str:
    """The name on one line, without anything that a terminal, a log or a page would obey."""
    return _UNSAFE.sub(_escaped, str(name))


def hint(name: str, known: Iterable[str]) -> str:
    """For an unknown name: «did you mean …?», or the list of what there is."""
    names = list(known)
    match = difflib.get_close_matches(name, names, n=1)
    if match:
        return f"did you mean '{match[0]}'?"
    return f"there are: {', '.join(names[:20])}{' …' if len(names) > 20 else ''}."


def without_folders(text: str) -> str:
    """A text for publication: of absolute paths only the last part is left."""
    return _ABSOLUTE.sub(r"\1", text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
