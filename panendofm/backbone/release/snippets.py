"""Code for a model card: how to get features from a release, in each package."""

from __future__ import annotations

from panendofm.backbone.config import ViTConfig, architecture_name
from panendofm.backbone.preprocessing import Preprocessing

_PANENDOFM = """\
import torch
from PIL import Image
from panendofm.backbone import load_backbone

loaded = load_backbone(".")
image = loaded.preprocessing(Image.open("image.jpg"))
with torch.no_grad():
    features = loaded.model(image[None]).cls"""

_TIMM = """\
import timm
import torch
from PIL import Image

model = timm.create_model("local-dir:timm", pretrained=True).eval()
transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model))
with torch.no_grad():
    tokens = model.forward_features(transform(Image.open("image.jpg").convert("RGB"))[None])
features = tokens[:, 0]"""

_TRANSFORMERS = """\
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModel

processor = AutoImageProcessor.from_pretrained("transformers")
model = AutoModel.from_pretrained("transformers", dtype=torch.float32).eval()
inputs = processor(Image.open("image.jpg"), return_tensors="pt")
with torch.no_grad():
    features = model(**inputs).last_hidden_state[:, 0]"""

_ONNX = """\
import numpy as np
import onnxruntime
from PIL import Image

image = Image.open("image.jpg").convert("RGB")
short = min(image.size)
size = int({resize} * image.width / short), int({resize} * image.height / short)
image = image.resize(size, Image.Resampling.{interpolation})
left, top = round((image.width - {crop}) / 2), round((image.height - {crop}) / 2)
pixels = np.asarray(image.crop((left, top, left + {crop}, top + {crop}))) / 255
pixels = (pixels - {mean}) / {std}
session = onnxruntime.InferenceSession("onnx/model.onnx")
batch = pixels.transpose(2, 0, 1)[None].astype(np.float32)
features, patches = session.run(None, {{"images": batch}})"""

_HUB = """\
import torch
from PIL import Image
from safetensors.torch import load_file
from torchvision import transforms

transform = transforms.Compose([
    transforms.Resize({resize}, transforms.InterpolationMode.{interpolation}),
    transforms.CenterCrop({crop}),
    transforms.ToTensor(),
    transforms.Normalize({mean}, {std}),
])
model = torch.hub.load("facebookresearch/dinov2", "{hub_name}", pretrained=False)
model.load_state_dict(load_file("hub/model.safetensors"))
model.eval()
with torch.no_grad():
    features = model(transform(Image.open("image.jpg").convert("RGB"))[None])"""


def hub_name(config: ViTConfig) -> str | None:
    """Name of the torch.hub model of these sizes; None when the official repository has none."""
    letters = {"small": "s", "base": "b", "large": "l", "giant": "g"}
    known = {f"vit_{size}_patch14{reg}": (s, reg) for size, s in letters.items() for reg in ("", "_reg4")}
    size = known.get(architecture_name(config))
    return None if size is None else f"dinov2_vit{size[0]}14{'_reg' if size[1] else ''}"


def snippets(config: ViTConfig, preprocessing: Preprocessing) -> dict[str, str]:
    """For each package, code that gives `features` [1, D] of image.jpg; to be run in the release folder."""
    values = {
        "resize": preprocessing.resize_px,
        "crop": preprocessing.crop_px,
        "interpolation": preprocessing.interpolation.upper(),
        "mean": list(preprocessing.mean),
        "std": list(preprocessing.std),
    }
    code = {"panendofm": _PANENDOFM, "timm": _TIMM, "transformers": _TRANSFORMERS, "onnx": _ONNX.format(**values)}
    name = hub_name(config)
    if name is not None:
        code["hub"] = _HUB.format(**values, hub_name=name)
    return code
