"""The settings of a run: whom to ask, and how."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal
from urllib.parse import urlsplit

from panendofm.runtime.config import option, required
from panendofm.runtime.errors import UserError
from panendofm.scoring.answers.box_replies import CONVENTIONS
from panendofm.vqa.published_prompts import PROFILES

# Names of endings and of perturbed images; reply_kinds.py and prompts.py say what each of them is.
PROMPTS = ("direct", "letter", "cot", *PROFILES)
BOXED = "boxed"
ORIGINAL_WORDING = "original_wording"
PERTURBATIONS = ("jpeg20", "blur2", "dark", "bright", "half", BOXED, ORIGINAL_WORDING)


@dataclass
class ApiConfig:
    """An OpenAI-compatible endpoint, or a folder of a transformers model on this machine."""

    url: str = option("Address of the endpoint, such as http://127.0.0.1:8000/v1.", "")
    local: str = option("Folder of a transformers model that is run here instead.", "")
    model: str = option("The model's id, as the endpoint knows it.", "")
    name: str = option("What tables call the model; empty: the last part of its id.", "")
    kind: str = option("What tables call its kind, such as commercial, open or medical.", "model")
    key_env: str = option("Name of the environment variable that holds the key; keys never stand in files.", "")
    temperature: float | None = option("Temperature; null leaves it out, for models that refuse it.", 0.0)
    token_key: str = option("max_tokens, or max_completion_tokens for models that want that.", "max_tokens")
    max_tokens: int | None = option("Room for a reply; null: 16 for prompt=letter, 256 for texts, else 1024.", None)
    timeout_seconds: float = option("A request that takes longer is tried again.", 120.0)
    retries: int = option("How often a request is tried again.", 5)
    backoff_seconds: float = option("Wait before the first retry; it doubles each time.", 1.0)
    max_wait_seconds: float = option("Longest wait between two tries.", 60.0)
    concurrency: int = option("Requests at once.", 4)
    give_up_after: int = option("Questions in a row that fail in spite of all retries before the run stops.", 10)
    price_input: float | None = option("Price of a million prompt tokens.", None)
    price_output: float | None = option("Price of a million reply tokens.", None)
    box_convention: str = option("Coordinates of the model's boxes: pixel, unit, permille or permille_yx.", "pixel")
    device: str | None = option("Where a local model runs; auto takes a GPU when there is one.", "auto")

    def check(self) -> None:
        if self.box_convention not in CONVENTIONS:
            known = ", ".join(CONVENTIONS)
            raise UserError(f"api.box_convention: '{self.box_convention}' is none of {known}.")
        if self.key_env and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.key_env):
            raise UserError("api.key_env is the name of an environment variable, not the key itself; export it first.")
        if "@" in urlsplit(self.url).netloc:
            raise UserError("api.url holds credentials; put them into an environment variable, named by api.key_env.")
        if self.kind in ("people", "encoder"):
            raise UserError(f"api.kind: '{self.kind}' is kept for others; say model, commercial, open or medical.")
        if self.concurrency < 1 or self.retries < 0 or self.give_up_after < 1:
            raise UserError("api.concurrency and api.give_up_after must be at least 1, api.retries at least 0.")

    @property
    def title(self) -> str:
        return self.name or PurePath(self.local or self.model).name

    def key(self) -> str | None:
        """The key, from the environment alone."""
        if not self.key_env:
            return None
        value = os.environ.get(self.key_env, "")
        if not value:
            raise UserError(f"api.key_env: the environment variable {self.key_env} is not set; export it first.")
        if not re.fullmatch(r"[\x21-\x7e]+", value):
            raise UserError(
                f"api.key_env: {self.key_env} holds blanks or other characters that no key has; export it anew."
            )
        return value


@dataclass
class AskConfig:
    """Which questions are asked, and in which variants."""

    prompt: str = option(
        "direct, letter (alone), cot (chain of thought), or the paper's own words: published, open.",
        "direct",
    )
    likelihood: Literal["none", "letters", "texts"] = option(
        "With api.local: choose the likeliest letter or option text instead of reading a reply.", "none"
    )
    rotations: Literal["none", "all"] = option("all: every question in each rotation of its options.", "none")
    blind: bool = option("Ask every question a second time without its image.", False)
    perturbations: list[str] = option(f"Ask again with perturbed images: {', '.join(PERTURBATIONS)}.", [])
    repeats: int = option("Ask the plain question so many times.", 1)
    format_retries: int = option("Ask so many times more when a reply can't be read; how often is stored.", 0)
    tasks: list[str] = option("Only these tasks or question types.", [])
    limit: int | None = option("Only so many questions, drawn by hash.", None)
    human_subset: bool = option("Only the questions that people answer too.", False)
    system: str = option("System message, for benches that bring none.", "")

    def check(self) -> None:
        if self.prompt not in PROMPTS:
            raise UserError(f"ask.prompt: '{self.prompt}' is none of {', '.join(PROMPTS)}.")
        for name in self.perturbations:
            if name not in PERTURBATIONS:
                raise UserError(f"ask.perturbations: '{name}' is none of {', '.join(PERTURBATIONS)}.")
        if self.repeats < 1 or self.format_retries < 0:
            raise UserError("ask.repeats must be at least 1, ask.format_retries at least 0.")


@dataclass
class RunConfig:
    """A model that answers a bench."""

    out: str = required("Folder for the answers; the same command again goes on where it stopped.")
    api: ApiConfig = field(default_factory=ApiConfig)
    ask: AskConfig = field(default_factory=AskConfig)

    def check(self) -> None:
        if bool(self.api.url) == bool(self.api.local):
            raise UserError("name one of api.url (an endpoint) and api.local (a folder of a model).")
        if self.api.url and not self.api.model:
            raise UserError("api.model has no value; name the model as the endpoint knows it.")
        if self.ask.likelihood != "none" and not self.api.local:
            raise UserError("ask.likelihood needs a model on this machine; name its folder by api.local.")


@dataclass
class ExtractConfig:
    """A model that reads replies which the strict parser can't."""

    max_tokens: int = option("Room for a letter.", 16)
    allow_self: bool = option("Let the model that replied read its own replies.", False)
    api: ApiConfig = field(default_factory=ApiConfig)

    def check(self) -> None:
        if not self.api.url or not self.api.model:
            raise UserError("api.url and api.model name the model that reads the replies; set both.")


@dataclass
class ConvertConfig:
    """Answers of other evaluators, read or written."""

    out: str = required("Folder for answers, or the file to write with another form.")
    form: Literal["answers", "vlmevalkit", "lmms-eval"] = option(
        "answers: read predictions (.tsv, .csv, .json) or samples (.jsonl) of others; else: write ours as theirs.",
        "answers",
    )
    name: str = option("What tables call the model; empty: the file's name.", "")
