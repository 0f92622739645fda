"""The keys of the verbs by which people and judges take part."""

from __future__ import annotations

from dataclasses import dataclass, field

from panendofm.runtime.config import option, required
from panendofm.runtime.errors import UserError
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.vqa.client.config import ApiConfig


@dataclass
class ExamConfig:
    """A person who answers on a page of this machine."""

    reader: str = required("A code such as junior-1, no name.")
    group: str = required("Such as junior.")
    people: str = option("Folder for the answers.", "people")
    port: int = option("Port on 127.0.0.1; 0 takes a free one.", 0)


@dataclass(kw_only=True)
class TextsConfig:
    """Which texts are rated."""

    people: str = option("Folder of readers' answers, to rate their texts too.", "")
    human_subset: bool = option("Only images that people answer too.", False)
    rubric: str = option("Another rubric of the benchmark, such as over_interpretation.", "")
    blind: bool = option("Texts that were written without the image too.", False)


@dataclass(kw_only=True)
class RateConfig(TextsConfig):
    """An expert who rates texts blindly on a page of this machine."""

    rater: str = required("A code such as expert-1, no name.")
    ratings: str = option("Folder for the ratings.", "ratings")
    port: int = option("Port on 127.0.0.1; 0 takes a free one.", 0)


@dataclass
class RateReportsConfig:
    """An expert who rates teams' reports blindly on a page of this machine."""

    rater: str = required("A code such as expert-1, no name.")
    ratings: str = option("Folder for the ratings.", "report_ratings")
    port: int = option("Port on 127.0.0.1; 0 takes a free one.", 0)


@dataclass
class RankReportsConfig:
    """Teams by the ratings of their reports."""

    ratings: str = option("Folder of the ratings.", "report_ratings")
    out: str = option("Folder for the ranking.", "report_ranking")
    bootstrap: BootstrapConfig = option("", BootstrapConfig())


@dataclass(kw_only=True)
class JudgeConfig(TextsConfig):
    """A model that rates texts."""

    ratings: str = required("Folder of the ratings.")
    max_tokens: int = option("Room for a rating.", 256)
    allow_self: bool = option("Let a contestant be the judge; it is said then.", False)
    no_reference: bool = option("Rate texts without a reference, without what needs one.", False)
    api: ApiConfig = field(default_factory=ApiConfig)

    def check(self) -> None:
        if not self.api.url or not self.api.model:
            raise UserError("api.url and api.model name the judge; set both.")
