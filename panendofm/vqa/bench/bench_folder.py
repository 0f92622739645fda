"""A bench on disk: items.parquet, images beside it, manifest.json and checksums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from panendofm.records.documents import read_document, write_document
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import failed_checksums, read_json_object, sha256_of, write_checksums
from panendofm.vqa.bench.config import BuildConfig, LesionClass
from panendofm.vqa.bench.items import Item, read_items, write_items
from panendofm.vqa.published_prompts import PromptsNote

FORMAT = 2
DEFAULT_BENCHMARK = "endobench"
ITEMS, MANIFEST, IMAGES, CHECKSUMS = "items.parquet", "manifest.json", "images", "SHA256SUMS"
_COUNTED = ("task", "subtask", "scene", "prompt_kind", "kind", "dataset")


@dataclass(frozen=True)
class NetworkNote:
    """The network whose features chose the images."""

    name: str
    sha256: str


@dataclass(frozen=True)
class EntitySelection:
    """Which images of one entity were chosen, and how well they cover the others."""

    images: int
    chosen: int
    outliers: list[str]
    covering_radius: float | None = None
    covering_radius_of_a_random_draw: float | None = None


@dataclass(frozen=True)
class ReviewNote:
    reviewers: int
    dropped: int
    fixed: int
    disagreements: list[str]


@dataclass(frozen=True)
class RephraseNote:
    by: str
    outcomes: dict[str, int]


@dataclass(frozen=True)
class LesionNote:
    """What a bench about single lesions asks for."""

    sites: dict[str, str]
    classes: list[LesionClass]
    diagnosis_options: str = "all"


@dataclass(frozen=True)
class Manifest:
    """What a bench holds and how it was made."""

    name: str
    benchmark: str = DEFAULT_BENCHMARK
    questions: int = 0
    images: int = 0
    groups: int = 0
    items_sha256: str = ""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    seed: int | None = None
    config: BuildConfig | None = None  # without places
    inputs: dict[str, str] = field(default_factory=dict)
    network: NetworkNote | None = None
    selection: dict[str, dict[str, EntitySelection]] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    licenses: dict[str, str] = field(default_factory=dict)
    reviewed: int = 0
    review: ReviewNote | None = None
    rephrased: RephraseNote | None = None
    imported_from: str = ""
    disclaimer: str = ""  # closing line that texts are asked for
    questions_for_people: dict[str, str] = field(default_factory=dict)  # by code of the question type
    lesions: LesionNote | None = None
    published_prompts: PromptsNote | None = None
    format: int = FORMAT


@dataclass(frozen=True)
class Bench:
    """A bench that was read."""

    folder: Path
    manifest: Manifest
    items: list[Item]
    checksum: str  # of the questions: answers name it

    @cached_property
    def by_id(self) -> dict[str, Item]:
        return {item.id: item for item in self.items}

    @property
    def for_people(self) -> list[Item]:
        """The questions that people answer too."""
        return [item for item in self.items if item.human]

    def image(self, item: Item) -> bytes:
        path = self.folder / item.image
        with naming_path("read the image", path):
            return path.read_bytes()

    def question_for_people(self, item: Item) -> str:
        """The question without output format and closing line, which are meant for models."""
        own = self.manifest.questions_for_people.get(item.subtask)
        return own or item.question.removesuffix(self.manifest.disclaimer).rstrip()


def write_bench(folder: Path, items: Sequence[Item], manifest: Manifest) -> None:
    """Write questions, manifest and checksums into a folder that holds the images already."""
    if not items:
        raise UserError("not one question could be built; the reasons are listed above.")
    write_items(items, folder / ITEMS)
    counts = {name: dict(sorted(Counter(getattr(item, name) for item in items).items())) for name in _COUNTED}
    counted = replace(
        manifest,
        questions=len(items),
        images=len({item.sha256 for item in items}),
        groups=len({item.group for item in items}),
        items_sha256=sha256_of(folder / ITEMS),
        counts=counts,
    )
    write_document(folder / MANIFEST, counted)
    files = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and p.name != CHECKSUMS]
    write_checksums(folder, files, CHECKSUMS)


def read_bench(folder: Path | str, verify: bool = False) -> Bench:
    """Read a bench; `verify` compares all its files with their checksums."""
    folder = Path(folder)
    if not (folder / MANIFEST).is_file() or not (folder / ITEMS).is_file():
        raise UserError(f"{folder} holds no bench ({MANIFEST} and {ITEMS} are missing); make one with 'vqa build'.")
    manifest = _read_manifest(folder / MANIFEST)
    checksum = sha256_of(folder / ITEMS)
    if checksum != manifest.items_sha256:
        raise UserError(f"{folder / ITEMS} is not the file that {MANIFEST} names; build or copy the bench anew.")
    if verify:
        damaged = failed_checksums(folder, CHECKSUMS)
        if damaged:
            raise UserError(
                f"{folder / damaged[0]} is missing or was changed ({len(damaged)} such files); copy it anew."
            )
    return Bench(folder, manifest, read_items(folder / ITEMS), checksum)


def _read_manifest(path: Path) -> Manifest:
    number = read_json_object(path).get("format")
    if number != FORMAT:
        raise UserError(
            f"{path}: the bench has format {number}, this version reads {FORMAT}; build it anew, answers stay valid."
        )
    return read_document(Manifest, path, "the manifest of a bench")
