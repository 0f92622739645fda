"""The wordings of questions."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence

from panendofm.runtime.errors import UserError
from panendofm.runtime.yaml_files import read_yaml
from panendofm.vqa.bench.keys import keyed

FEWEST = 5
_FIELDS = {"entity", "color", "instrument", "phase", "x1", "y1", "x2", "y2"}


def _placeholders(wording: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(wording) if name is not None}


class Templates:
    """Wordings by question type; which one a question gets is decided by a hash of its key."""

    def __init__(self, texts: Mapping[str, Sequence[str]], source: str) -> None:
        for name, wordings in texts.items():
            listed = isinstance(wordings, list | tuple) and all(isinstance(wording, str) for wording in wordings)
            if not listed or len(set(wordings)) < FEWEST:
                raise UserError(f"{source}: '{name}' needs at least {FEWEST} different wordings.")
            for wording in wordings:
                try:
                    unknown = _placeholders(wording) - _FIELDS
                except ValueError as error:
                    raise UserError(f"{source}: {name} has a wording whose braces are wrong ({error}).") from error
                if unknown:
                    raise UserError(f"{source}: {name} has the unknown placeholder {{{sorted(unknown)[0]}}}.")
        self.texts = texts
        self.source = source

    def text(self, code: str, key: str, seed: int, values: dict[str, object]) -> tuple[str, str]:
        """The question and the name of its wording. A wording whose placeholders have no value is passed over."""
        if code not in self.texts:
            raise UserError(f"{self.source}: there are no wordings for '{code}'; add {FEWEST}.")
        usable = [
            (number, wording)
            for number, wording in enumerate(self.texts[code])
            if all(values.get(name) for name in _placeholders(wording) if name[0] not in "xy")  # coordinates may be 0
        ]
        number, wording = usable[keyed(seed, "template", key) % len(usable)]
        return wording.format(**values), f"{code}.{number}"


def read_templates(path: str) -> Templates:
    """Wordings of one's own: a YAML mapping of question types to lists."""
    values = read_yaml(path, "the templates")
    if not isinstance(values, dict):
        raise UserError(f"{path}: templates are a mapping of question types to lists of wordings.")
    return Templates(values, path)
