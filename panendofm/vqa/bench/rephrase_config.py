"""The keys of `panendofm vqa rephrase`."""

from __future__ import annotations

from dataclasses import dataclass, field

from panendofm.runtime.config import option, required
from panendofm.runtime.errors import UserError
from panendofm.vqa.client.config import ApiConfig


@dataclass
class RephraseConfig:
    """A bench whose questions are worded anew."""

    out: str = required("Folder of the new bench; it must not exist.")
    max_tokens: int = option("Room for a new wording.", 256)
    api: ApiConfig = field(default_factory=ApiConfig)

    def check(self) -> None:
        if not self.api.url or not self.api.model:
            raise UserError("api.url and api.model name the model that words the questions anew; set both.")
