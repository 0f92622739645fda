"""A multimodal model of the transformers library in a folder here, asked without a server."""

from __future__ import annotations

import base64
import io
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from PIL import Image

from panendofm.backbone import device_of, ensure_torchvision
from panendofm.backbone.networks import load_pretrained
from panendofm.runtime.errors import UserError
from panendofm.vqa.client.chat import Message, Reply
from panendofm.vqa.client.config import ApiConfig

if TYPE_CHECKING:
    from transformers import BatchFeature  # slow to import


class LocalModel:
    """Loads the folder once and answers one chat at a time; the same chats as an endpoint gets."""

    def __init__(self, config: ApiConfig) -> None:
        folder = Path(config.local)
        if not (folder / "config.json").is_file():
            raise UserError(f"api.local: {folder} is no folder of a transformers model (config.json is missing).")
        ensure_torchvision()
        from transformers import AutoModelForImageTextToText, AutoProcessor

        self._model = load_pretrained(AutoModelForImageTextToText, folder, f"api.local: {folder}")
        try:
            self._processor = AutoProcessor.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        except (OSError, ValueError, ImportError) as error:
            raise UserError(f"api.local: cannot load {folder} ({str(error).splitlines()[0]}).") from error
        self._device = device_of(config.device, "api.device")
        self._model.to(self._device).eval()
        self._config = config
        self._lock = threading.Lock()

    def close(self) -> None:
        return None

    def body(self, messages: list[Message], max_tokens: int) -> Message:
        return {"model": self._config.title, "messages": messages, "max_tokens": max_tokens}

    def _inputs(self, chat: list[Message]) -> BatchFeature:
        messages, images = _for_processor(chat)
        prompt = self._processor.apply_chat_template(messages, add_generation_prompt=True)
        return self._processor(text=[prompt], images=images or None, return_tensors="pt").to(self._device)

    def log_probabilities(self, messages: list[Message], continuations: Sequence[str]) -> list[float]:
        """Mean log-probability per token of each continuation of the chat."""
        with self._lock, torch.no_grad():
            inputs = dict(self._inputs(messages))
            return [self._log_probability(inputs, continuation) for continuation in continuations]

    def _log_probability(self, inputs: dict[str, torch.Tensor], continuation: str) -> float:
        tokens = self._processor.tokenizer(continuation, add_special_tokens=False, return_tensors="pt")
        added = tokens["input_ids"].to(self._device)  # [1, C]
        if not added.numel():
            raise UserError(
                f"api.local: the option «{continuation}» has no token in this model; leave its question out."
            )
        length = inputs["input_ids"].shape[1]
        longer = dict(inputs)
        for name, values in inputs.items():
            # Masks and types of tokens grow with the tokens; pixels do not.
            if values.dim() == 2 and values.shape[1] == length:
                fill = added if name == "input_ids" else torch.full_like(added, int(name == "attention_mask"))
                longer[name] = torch.cat([values, fill.to(values.dtype)], dim=1)
        logits = self._model(**longer).logits[0, length - 1 : -1].float()  # [C, V]: each token is predicted before it
        chosen = torch.log_softmax(logits, -1).gather(1, added[0, :, None])  # [C, 1]
        return float(chosen.mean())

    def ask(self, body: Message) -> Reply:
        began = time.monotonic()
        with self._lock, torch.no_grad():
            inputs = self._inputs(body["messages"])
            length = inputs["input_ids"].shape[1]
            sampling: Message = {"do_sample": False}
            if self._config.temperature:
                sampling = {"do_sample": True, "temperature": self._config.temperature}
            output = self._model.generate(**inputs, max_new_tokens=body["max_tokens"], **sampling)
        new = output[0, length:]
        text = self._processor.tokenizer.decode(new, skip_special_tokens=True)
        usage = {"prompt_tokens": int(length), "completion_tokens": len(new)}
        finish = "length" if len(new) >= body["max_tokens"] else "stop"
        return Reply(text, finish, usage, time.monotonic() - began, 1, None, self._config.title)


def _for_processor(messages: list[Message]) -> tuple[list[Message], list[Image.Image]]:
    """Chats as processors take them: a place for each image, and the images in their order."""
    images: list[Image.Image] = []
    result = []
    for message in messages:
        content = message["content"]
        if isinstance(content, list):
            parts = []
            for part in content:
                if part["type"] == "image_url":
                    data = base64.b64decode(part["image_url"]["url"].partition(",")[2])
                    images.append(Image.open(io.BytesIO(data)).convert("RGB"))
                    parts.append({"type": "image"})
                else:
                    parts.append(part)
            content = parts
        result.append({"role": message["role"], "content": content})
    return result, images
