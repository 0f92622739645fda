"""The wordings of questions."""

from __future__ import annotations

import string
from typing import Any

from panendofm.runtime.errors import UserError
from panendofm.runtime.yaml_files import read_yaml
from panendofm.vqa.bench.keys import keyed
from panendofm.vqa.bench.questions.vocabulary import read_package_yaml

FEWEST = 5
_FIELDS = {"entity", "color", "instrument", "phase", "x1", "y1", "x2", "y2"}


def _placeholders(wording: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(wording) if name is not None}


class Templates:
    """Texts by sub-task; which one a question gets is decided by a hash of its key."""

    def __init__(self, texts: dict[str, list[str]], source: str) -> None:
        for name, wordings in texts.items():
            texts_only = isinstance(wordings, list) and all(isinstance(wording, str) for wording in wordings)
            if not texts_only or len(set(wordings)) < FEWEST:
                raise UserError(f"{source}: '{name}' needs at least {FEWEST} different wordings.")
            for wording in wordings:
                try:
                    unknown = _placeholders(wording) - _FIELDS
                except ValueError as error:
                    raise UserError(f"{source}: {name} has a wording whose braces are wrong ({error}).") from error
                if unknown:
                    raise UserError(f"{source}: {name} has the unknown placeholder {{{sorted(unknown)[0]}}}.")
        self.texts, self.source = texts, source

    def text(self, subtask: str, key: str, seed: int, values: dict[str, Any]) -> tuple[str, str]:
        """The question and the name of its wording. A wording whose placeholders have no value is passed over."""
        if subtask not in self.texts:
            raise UserError(f"{self.source}: there are no wordings for '{subtask}'; add {FEWEST}.")
        usable = [
            (number, wording)
            for number, wording in enumerate(self.texts[subtask])
            if all(
                values.get(f) for _, f, _, _ in string.Formatter().parse(wording) if f is not None and f[0] not in "xy"
            )
        ]
        number, wording = usable[keyed(seed, "template", key) % len(usable)]
        return wording.format(**values), f"{subtask}.{number}"


def load_templates(path: str = "") -> Templates:
    """Those of this package, or of a file of the same form."""
    if not path:
        return Templates(read_package_yaml("templates", "endobench.yaml"), "endobench.yaml")
    values = read_yaml(path, "the templates")
    if not isinstance(values, dict):
        raise UserError(f"{path}: templates are a mapping of sub-tasks to lists of wordings.")
    return Templates(values, path)
