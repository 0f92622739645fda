"""The layouts that a corpus may have: those of the public corpora, and any folder."""

from __future__ import annotations

from panendofm.atlas import Corpus, FileRule, load_corpora
from panendofm.runtime.errors import UserError
from panendofm.runtime.names import hint

_ANY_FOLDER = Corpus(
    title="any folder of videos and images",
    files=[FileRule(r".*", "image"), FileRule(r"(?:.*/)?(?P<video>[^/]+)\.[^.]+", "video")],
)


def adapters() -> dict[str, Corpus]:
    return {**load_corpora(), "folder": _ANY_FOLDER}


def is_public_component(component: str) -> bool:
    """Whether a corpus itself publishes the name. Any other folder may be called after a patient."""
    return any(component.lower() == name.lower() for corpus in load_corpora().values() for name in corpus.components)


def adapter_called(name: str, corpus: str) -> Corpus:
    known = adapters()
    if name in known:
        return known[name]
    raise UserError(f"corpora.{corpus}.adapter: there is no adapter '{name}'; {hint(name, known)}")
