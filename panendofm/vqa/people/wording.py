"""Questions as people read them: no output format and no closing line, which are meant for models."""

from __future__ import annotations

from panendofm.vqa.bench.items import Bench, Item


def question_for_people(bench: Bench, item: Item) -> str:
    if item.kind == "box":
        return str(bench.manifest.get("box_question_for_people") or item.question)
    ending = str(bench.manifest.get("disclaimer", ""))
    return item.question.removesuffix(ending).rstrip() if item.kind == "text" and ending else item.question
