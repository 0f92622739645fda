"""The keys of `objective`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from panendofm.runtime.config import option


@dataclass
class HeadConfig:
    """Sizes of a head; the defaults are those of the reference's ViT-L/14 recipe for DINO."""

    prototypes: int = option("Number of prototypes, the width of the output.", 131072, low=1)
    bottleneck: int = option("Width of the layer before the prototypes.", 384, low=1)
    layers: int = option("Linear layers before the prototypes.", 3, low=1)
    hidden: int = option("Width of the hidden layers.", 2048, low=1)


@dataclass
class StudentConfig:
    """The size of a further student; all else is as for `model`."""

    name: str = option("Size, such as vit_base_patch14.", "vit_base_patch14")
    width: int | None = option("Length of a token; null: the name's.", None, low=1)
    depth: int | None = option("Number of blocks; null: the name's.", None, low=1)
    attention_heads: int | None = option("Attention heads; null: the name's.", None, low=1)


@dataclass
class DistillConfig:
    """objective.kind=distill: what the student learns from."""

    teacher: str | None = option(
        "The frozen network: a run or checkpoint of pretrain, whose heads are matched; any weights that load_backbone "
        "reads, or timm:NAME@FILE, timm:FOLDER or transformers:FOLDER, whose features are regressed.",
        None,
    )
    loss: Literal["auto", "features"] = option(
        "auto: prototypes where the teacher has heads, else features; features: regress features in any case.", "auto"
    )
    students: dict[str, StudentConfig] = option(
        "Further students by name, taught in the same pass of the teacher. Each has its own moving average, which is "
        "scored like the first's; its checkpoints are in run.dir/students/NAME.",
        {},
    )


@dataclass
class ObjectiveConfig:
    """The defaults are the reference's ViT-L/14 recipe; what the reference lacks is off."""

    kind: Literal["dinov2", "instance", "distill"] = option(
        "dinov2; instance: every image is a class of its own, for adapting weights to a few hundred to 100,000 images; "
        "distill: learn from the frozen network distill.teacher.",
        "dinov2",
    )
    label_smoothing: float = option(
        "instance: share of the target that all classes have in common.", 0.3, low=0, below=1
    )
    sampled_classes: int = option(
        "instance: with more images than this, so many are drawn for each step's softmax, beside those of its batch.",
        100_000,
        low=2,
    )
    dino_head: HeadConfig = option("Head of the cls tokens.", HeadConfig(prototypes=131072, bottleneck=384))
    ibot_head: HeadConfig = option("Head of the patches.", HeadConfig(prototypes=131072, bottleneck=256))
    separate_ibot_head: bool = option("false: patches use the DINO head, and ibot_head is ignored.", True)
    targets: Literal["sinkhorn", "centering"] = option("How teacher scores become targets.", "sinkhorn")
    dino_weight: float = option("Weight of the DINO losses.", 1.0, low=0)
    ibot_weight: float = option("Weight of the iBOT loss.", 1.0, low=0)
    koleo_weight: float = option("Weight of the KoLeo loss of each global crop.", 0.1, low=0)
    koleo_across_ranks: bool = option("Look for KoLeo's nearest neighbor on all ranks (from DINOv3).", False)
    gram_weight: float = option("Weight of Gram anchoring to the starting weights (from DINOv3); 0 is off.", 0.0, low=0)
    feature_weight: float = option("Weight of matching the starting weights' features; 0 is off.", 0.0, low=0)
    # No float16: its small gradients would need loss scaling, which bfloat16's range makes needless.
    compute_type: Literal["float32", "bfloat16"] = option(
        "Type of the matrix products (autocast). Losses are fp32 always.", "float32"
    )

    def sampled_from(self, images: int) -> int | None:
        """How many images take part in a step's softmax of instance classification; None: all of them, or none."""
        return self.sampled_classes if self.kind == "instance" and images > self.sampled_classes else None

    @property
    def anchored(self) -> bool:
        """Whether the starting weights are kept as a third network."""
        return self.gram_weight > 0 or self.feature_weight > 0
