"""An ONNX graph of a release as a network: whoever asks for features need not know what computes them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from panendofm.backbone import Preprocessing
from panendofm.backbone.networks import Network, Outputs
from panendofm.records.release import ReleaseInfo
from panendofm.runtime.files import sha256_of


class Graph(nn.Module):
    """cls tokens [B, D] of images [B, 3, H, W], and patch tokens as a map. Runs on the CPU."""

    def __init__(self, path: Path, patch_px: int) -> None:
        super().__init__()
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        self.patch_px = patch_px
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def forward(self, images: Tensor) -> Tensor:
        (cls,) = self.session.run(["cls"], {"images": images.numpy()})
        return torch.from_numpy(cls)

    def feature_maps(self, images: Tensor, last: int = 1) -> list[Tensor]:
        """The patch tokens on their grid: [B, D, rows, columns]."""
        (patches,) = self.session.run(["patches"], {"images": images.numpy()})  # [B, N, D]
        grid = images.shape[2] // self.patch_px, images.shape[3] // self.patch_px
        return [torch.unflatten(torch.from_numpy(patches).transpose(1, 2), 2, grid)]


def graph_network(path: Path, kind: str, release: ReleaseInfo) -> Network:
    patch_px = int(release.vit["patch_px"])
    return Network(
        name=kind,
        word=f"{release.name} ({kind})",
        source="release",
        architecture=release.architecture,
        weights_sha256=sha256_of(path),
        preprocessing=Preprocessing.from_dict(release.preprocessing),
        load=lambda: Graph(path, patch_px),
        outputs=Outputs(maps=1),
        certificate=release.certificate,
    )
