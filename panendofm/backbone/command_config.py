"""The keys of `panendofm export|embed` and of the verbs of `panendofm backbone`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from panendofm.backbone.networks.feature_words import DEVICE_HELP, LAST, POOLINGS
from panendofm.runtime.config import option, required
from panendofm.runtime.errors import UserError


@dataclass
class ExportConfig:
    """All keys of `panendofm export`."""

    out: str = required("The release folder to write.")
    formats: list[str] = option("Formats to write.", ["hub", "timm", "transformers", "onnx"])
    dtype: Literal["float32", "float16", "bfloat16"] = option("Of the weights; ONNX is always float32.", "float32")
    name: str | None = option("Name in the model card; null: the folder's.", None)
    license: str | None = option("License in the model card, such as apache-2.0.", None, was="licence")
    image_px: int | None = option("Store positions for this image side; null: as they are.", None, low=1)
    role: Literal["teacher", "student"] = option("Which one, where a checkpoint holds both.", "teacher")
    average_with_start: float = option("Mix in so much of the weights that the run began with.", 0.0, low=0, below=1)
    start: str | None = option("Starting weights to average with; null: the run's.", None)
    start_note: str | None = option(
        "On the weights that training began with, for the model card: origin, license, what was done to them.", None
    )
    data_note: str | None = option("On the images, for the model card: whom to name.", None)
    allow_worse_than_start: bool = option("Export what kNN found worse than the run's start.", False)
    sign: str | None = option("Sign the checksums with this ssh key (needs ssh-keygen).", None)
    check_images: list[str] = option("Images to compare the formats on.", [])

    def check(self) -> None:
        if self.start is not None and not self.average_with_start:
            raise UserError(
                f"start={self.start}: say by average_with_start how much of it is mixed in, or leave it out."
            )


@dataclass
class VerifyConfig:
    """All keys of `panendofm backbone verify`."""

    signers: str | None = option("Demand a signature of one of these: an allowed_signers file of ssh-keygen.", None)


@dataclass
class PublishConfig:
    """All keys of `panendofm publish`."""

    repository: str = required("OWNER/NAME on the Hugging Face hub; made if it is not there.")
    upload: bool = option("Send it; false: only say what would be sent.", False)
    private: bool = option("Whether a repository that is made is private.", True)
    message: str = option("Title of the commit on the hub.", "Release")

    def check(self) -> None:
        if self.repository.count("/") != 1:
            raise UserError(f"repository={self.repository} is no name of a repository; write OWNER/NAME.")


@dataclass
class EmbedConfig:
    """All keys of `panendofm embed`."""

    out: str = required("Parquet file to write.")
    batch_size: int = option("Images per forward pass.", 64, low=1)
    device: str = option(DEVICE_HELP, "auto")
    layers: int = option("cls tokens of so many last blocks.", 1, low=1)
    patch_mean: bool = option("Append the mean patch token.", False)
    block: str = option("Block to read: last, or a number from 1 or from -1 (the last).", LAST)
    pooling: str = option("Tokens to read: cls, mean (of the patches) or both.", POOLINGS[0])
    half_precision: bool = option("Compute in bfloat16.", False)
    clean: bool = option(
        "Read images as training frames are: cut to the field of view, without position box and text.", False
    )


@dataclass
class ShowConfig:
    """All keys of `panendofm backbone show`."""

    out: str = option("Image to write: .png, .jpg, .pdf or .svg.", "show.png")
    whole: bool = option("Whole images at full resolution: PCA and similarity.", False)
    side_px: int | None = option("With whole: side of the network's input; larger is finer.", None, low=1)
    point: list[float] = option("With whole: the pixel [x, y] that the rest is compared with.", [])

    def check(self) -> None:
        endings = (".png", ".jpg") if self.whole else (".png", ".jpg", ".pdf", ".svg")
        if not self.out.endswith(endings):
            raise UserError(f"out={self.out}: name a {', '.join(endings[:-1])} or {endings[-1]} file.")
        if not self.whole and (self.side_px or self.point):
            raise UserError("side_px and point need whole=true; add it.")
        if self.point and len(self.point) != 2:
            raise UserError(f"point={self.point}: write two numbers in pixels, such as point=[120,80].")


@dataclass
class InitConfig:
    """All keys of `panendofm backbone init`."""

    out: str = required("Safetensors file to write.")
    seed: int = option("Another seed gives other weights.", 0)
    image_px: int | None = option("Image side that positions are stored for; null: the name's.", None, low=1)


@dataclass
class RecenterConfig:
    """All keys of `panendofm backbone recenter`."""

    out: str = required("Safetensors file to write.")
    images: int = option("At most so many images, evenly chosen.", 2000, low=1)
    crop_px: int | None = option("Side of the network's input; null: as the weights say.", None, low=1)
    batch_size: int = option("Images per forward pass.", 64, low=1)
    device: str = option(DEVICE_HELP, "auto")
