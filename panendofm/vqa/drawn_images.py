"""Images of a bench for pages: small enough for a page with many, with boxes over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from panendofm.imaging.images import decode_image, thumbnail
from panendofm.reports import data_url
from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import Item

_TRUTH = "#19c819"


@dataclass(frozen=True)
class Mark:
    """A box in pixels of the image."""

    box: Sequence[float]
    color: str = _TRUTH
    title: str = "truth"
    width: float = 2.0  # in shares of a thin line: the truth shows below a reply


@dataclass(frozen=True)
class DrawnImage:
    """For the macro `drawn` of `vqa_parts.html`; without `url` there is no image."""

    url: str
    width: int
    height: int
    alt: str
    marks: Sequence[Mark] = ()

    @property
    def line(self) -> float:
        return max(self.width, self.height) / 150


def true_marks(item: Item) -> list[Mark]:
    return [Mark(box) for box in item.target_boxes]


def drawn_image(bench: Bench, item: Item, marks: Sequence[Mark] = (), longest_px: int | None = 320) -> DrawnImage:
    """The image of a question; `longest_px` None: the file as it is."""
    url = ""
    if item.image and longest_px is None:
        url = data_url(bench.image(item), item.media_type.partition("/")[2])
    elif item.image and longest_px is not None:
        url = data_url(thumbnail(decode_image(bench.image(item), item.image), longest_px), "jpeg")
    return DrawnImage(url, item.width, item.height, item.id, marks)


def lettered_options(item: Item) -> list[tuple[str, str, bool]]:
    """Letter and text of each option, and whether it is right: for the macro `options`."""
    return [(letter, text, letter == item.answer) for letter, text in zip(LETTERS, item.options, strict=False)]
