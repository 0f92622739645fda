"""The keys of `panendofm vqa judge`."""

from __future__ import annotations

from dataclasses import dataclass, field

from panendofm.runtime.config import option, required
from panendofm.runtime.errors import UserError
from panendofm.vqa.client.config import ApiConfig


@dataclass
class JudgeConfig:
    """A judge and where its ratings go."""

    ratings: str = required("Folder of the ratings.")
    max_tokens: int = option("Room for a rating.", 256)
    api: ApiConfig = field(default_factory=ApiConfig)

    def check(self) -> None:
        if not self.api.url or not self.api.model:
            raise UserError("api.url and api.model name the judge; set both.")
