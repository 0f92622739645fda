"""Instance classification: every image of the corpus is a class of its own.

For a few hundred to some ten thousand images, where the prototypes of DINOv2 find too little to tell apart. All crops
of an image are its examples; label smoothing keeps two similar images from being driven apart without end.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from panendofm.backbone import Execution, ViTConfig
from panendofm.records.metrics import TOTAL
from pretrain.data.batch import Batch
from pretrain.objective.config import ObjectiveConfig
from pretrain.objective.objective import RECIPE, Objective
from pretrain.schedules import Ramp

HEAD = "instance_head"


class InstanceHead(nn.Module):
    """A linear classifier over the images of the corpus, on layer-normed cls tokens."""

    def __init__(self, width: int, images: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(width, images)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        # At zero all classes are equally likely, and the first gradients tell images apart by nothing but themselves.
        nn.init.zeros_(self.classifier.weight)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, cls: Tensor, rows: Tensor, classes: Tensor | None, smoothing: float) -> Tensor:
        """The mean cross-entropy of cls tokens [V, D] of the images `rows` [V].

        `classes` [C], sorted, names the images that take part in the softmax; None: all.
        """
        x = F.layer_norm(cls, cls.shape[-1:])  # [V, D]
        if classes is None:
            target = rows
            scores = self.classifier(x)  # [V, N]
        else:
            target = torch.searchsorted(classes, rows)  # [V]
            scores = F.linear(x, self.classifier.weight[classes], self.classifier.bias[classes])  # [V, C]
        with torch.autocast(scores.device.type, enabled=False):
            return F.cross_entropy(scores.float(), target, label_smoothing=smoothing)


class InstanceObjective(Objective):
    """The loss of a batch of B images with V = (2 + L)·B crops:

        cls      = student(global crops, local crops).cls                      one packed pass, nothing masked
        instance = mean_v CE(classifier(layer_norm(cls[v])), row of v's image; label smoothing)
        total    = instance + anchors

    The teacher is a moving average of the student's backbone: it is what is judged and exported.
    """

    def __init__(
        self,
        vit: ViTConfig,
        config: ObjectiveConfig,
        execution: Execution | None = None,
        trainable: str = "all",
        images: int = 1,
    ) -> None:
        self.images = images
        super().__init__(vit, config, execution, trainable)

    def student_heads(self, width: int) -> dict[str, nn.Module]:
        return {HEAD: InstanceHead(width, self.images)}

    def teacher_heads(self, width: int) -> dict[str, nn.Module]:
        return {}

    def forward(
        self,
        batch: Batch,
        teacher_temperature: float,
        ramp: Ramp = RECIPE,
        drop_path: list[Tensor] | None = None,
    ) -> dict[str, Tensor]:
        if batch.rows is None:
            raise ValueError("instance classification needs the rows of a batch's images")
        rows = batch.rows.repeat(2 + batch.local_crops_per_image)  # [V], crop-major as the crops are
        with self.autocast(batch.masks.device):
            tokens, local_cls = self.student_tokens(batch, None, drop_path)  # Tokens of 2B crops, [L·B, D]
            cls = torch.cat([tokens.cls, local_cls])  # [V, D]
            loss = self.student[HEAD](cls, rows, batch.classes, self.config.label_smoothing)
        nothing_masked = torch.zeros_like(batch.masks)
        anchors = self.anchor_losses(tokens, batch, nothing_masked, ramp.anchor)
        return {"instance": loss, **anchors, TOTAL: torch.stack([loss, *anchors.values()]).sum()}
