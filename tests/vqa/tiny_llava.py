"""A LLaVA of 0.2 M parameters that is made, trained and served here, without network.

It learns to name the color of a disc among four options that always stand in the same order. So it ties letters to
colors, not names: asked in that order it makes no mistake, and with rotated options it goes on replying by letter.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

COLORS = {"red": (200, 30, 30), "green": (30, 180, 40), "blue": (40, 60, 210), "yellow": (220, 200, 40)}
QUESTION = "Which colour is the disc?"
SIDE_PX = 28
_SPECIAL = ["<pad>", "<s>", "</s>", "<image>", "<|user|>", "<|assistant|>", "<|system|>"]
_CHAT = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' }}{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for part in m['content'] %}{% if part['type'] in ['image', 'image_url'] %}<image>"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def disc(color: str, random: Any) -> Any:
    """A image of a disc on gray noise."""
    import numpy as np
    from PIL import Image, ImageDraw

    image = Image.fromarray(random.integers(60, 120, (64, 64, 3), dtype=np.uint8))
    x, y = (int(v) for v in random.integers(18, 46, 2))
    ImageDraw.Draw(image).ellipse([x - 16, y - 16, x + 16, y + 16], fill=COLORS[color])
    return image


def prompt_text() -> str:
    """The question as the client writes it."""
    from panendofm.vqa.bench.items import Item
    from panendofm.vqa.client.prompts import Variant, question_text

    item = Item(
        "0", "LI", "LI", "anatomy", "GS", "image", "choice", "", "", "", 64, 64, QUESTION, tuple(COLORS), "A"
    )  # fmt: skip
    return question_text(item, Variant())


def build() -> tuple[Any, Any]:
    """Model and processor with random weights."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import (
        CLIPImageProcessorPil,
        CLIPVisionConfig,
        GenerationConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        PreTrainedTokenizerFast,
    )

    torch.manual_seed(0)
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=_SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator([prompt_text()] * 50, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        additional_special_tokens=_SPECIAL[3:],
    )  # fmt: skip
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(
            hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=2,
            image_size=SIDE_PX, patch_size=14, projection_dim=32,
        ),
        text_config=LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=3,
            num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=4096,
            bos_token_id=1, eos_token_id=2, pad_token_id=0,
        ),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"), image_seq_length=4,
        vision_feature_select_strategy="default", vision_feature_layer=-2,
    )  # fmt: skip
    model = LlavaForConditionalGeneration(config)
    model.generation_config = GenerationConfig(
        eos_token_id=2, pad_token_id=0, bos_token_id=1, max_new_tokens=16, do_sample=False
    )
    images = CLIPImageProcessorPil(size={"shortest_edge": SIDE_PX}, crop_size={"height": SIDE_PX, "width": SIDE_PX})
    processor = LlavaProcessor(
        image_processor=images, tokenizer=tokenizer, patch_size=14, vision_feature_select_strategy="default",
        num_additional_image_tokens=1, chat_template=_CHAT,
    )  # fmt: skip
    return model, processor


def train(model: Any, processor: Any, most_steps: int = 200) -> int:
    """Until 64 discs in a row were named with little doubt; returns the steps that it took."""
    import numpy as np
    import torch
    import torch.nn.functional as F

    random = np.random.default_rng(0)
    names, text = list(COLORS), prompt_text()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    model.train()
    sure = 0
    for step in range(most_steps):
        chosen = [int(n) for n in random.integers(0, 4, 16)]
        texts = [f"<|user|><image>{text}<|assistant|>{'ABCD'[n]}</s>" for n in chosen]
        images = [disc(names[n], random) for n in chosen]
        batch = processor(text=texts, images=images, return_tensors="pt")  # all of one length
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1.0, (step + 1) / 10)
        logits = model(**batch).logits  # [B, T, V]
        tokens = batch["input_ids"]
        # The letter is the last but one token, the end the last: each is predicted one place before.
        letter = F.cross_entropy(logits[:, -3], tokens[:, -2])
        loss = letter + 0.2 * F.cross_entropy(logits[:, -2], tokens[:, -1])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        right = bool((logits[:, -3].argmax(-1) == tokens[:, -2]).all()) and letter.item() < 0.1
        sure = sure + 1 if right else 0
        if sure >= 4:
            return step + 1
    raise RuntimeError(f"the tiny model has not learnt its colours in {most_steps} steps")


def main() -> None:
    """make FOLDER [--random] | serve FOLDER PORT"""
    # transformers would use a torchvision whose compiled part can't load; without one it decodes with Pillow.
    sys.modules["torchvision"] = None  # type: ignore[assignment]
    verb, folder = sys.argv[1], Path(sys.argv[2])
    if verb == "serve":
        from transformers.cli.transformers import main as transformers_main

        sys.argv = [
            "transformers",
            "serve",
            str(folder),
            "--device",
            "cpu",
            "--host",
            "127.0.0.1",
            "--port",
            sys.argv[3],
        ]
        transformers_main()
        return
    import torch

    torch.set_num_threads(1)
    model, processor = build()
    steps = 0 if "--random" in sys.argv else train(model, processor)
    model.eval()
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    (folder / "steps.json").write_text(json.dumps(steps), encoding="utf-8")


if __name__ == "__main__":
    main()
