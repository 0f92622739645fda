"""A multimodal model of the transformers library in a folder here, asked without a server."""

from __future__ import annotations

import base64
import io
import threading
import time
from pathlib import Path

import torch
from PIL import Image

from panendofm.backbone import device_of, ensure_torchvision
from panendofm.backbone.networks import load_pretrained
from panendofm.runtime.errors import UserError
from panendofm.vqa.client.chat import Message, Reply
from panendofm.vqa.client.config import ApiConfig


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

    def ask(self, body: Message) -> Reply:
        began = time.monotonic()
        messages, images = _for_processor(body["messages"])
        prompt = self._processor.apply_chat_template(messages, add_generation_prompt=True)
        with self._lock, torch.no_grad():
            inputs = self._processor(text=[prompt], images=images or None, return_tensors="pt").to(self._device)
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
