"""Score a network: features, neighbors, metrics.

`Evaluator` keeps the images and the split, so that a trainer can score its live model again and again. All ranks of a
process group call it together and get the same result.
"""

from __future__ import annotations

import copy
import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import nn

from eval_knn.config import SetConfig
from eval_knn.feature_choice import Chosen, choose_in_gallery, refuse_without_gallery
from eval_knn.leakage import leakage_note
from eval_knn.report.metrics import metrics_at_k
from eval_knn.search.groups import Groups
from eval_knn.search.neighbors import Neighbors, unit_rows
from eval_knn.search.vote import class_scores
from eval_knn.selection import Evaluation
from panendofm.atlas import GallerySplit, Keys, LabeledImages, load_or_make_gallery_split, read_labeled_images
from panendofm.backbone import FeatureCache, Preprocessing, extract_features, rank_and_world
from panendofm.backbone.networks import Network, network_features, reading_of
from panendofm.imaging.frame_filters.clean import Cleaner
from panendofm.records.evaluation import OWN_OUTPUT, Evaluated, EvaluatedData, KnnDocument, MetricsAtK
from panendofm.records.shards import Certificate
from panendofm.runtime.errors import UserError
from panendofm.scoring.features.spectrum import alpha_req, rankme
from panendofm.scoring.statistics.intervals import group_weights

T = TypeVar("T")


@dataclass(frozen=True)
class Result:
    """One network's metrics (`document`) and what plots are drawn from."""

    document: KnnDocument
    features: NDArray[np.float32]  # [N, D] of all images, scaled to length 1
    neighbors: Neighbors  # rows within the gallery, for each query
    predicted: NDArray[np.int64]  # class of each query at the selection's k

    @property
    def evaluation(self) -> Evaluation:
        return evaluation_of(self.document)

    @property
    def values(self) -> dict[str, float | None]:
        """top1_k20, …, rankme: what a trainer logs."""
        return self.document.values


class Evaluator:
    """Scores networks on one labeled set with one split."""

    def __init__(self, config: SetConfig, group: dist.ProcessGroup | None = None) -> None:
        self.config = config
        self.group = group
        self.cache = config.cache_folder()
        self.images, self.split = on_first_rank(self._open, group)
        self._cleaner = Cleaner(self.cache) if config.data.clean else None

    def as_they_came(self) -> Evaluator:
        """The same images and split, with images that are not cleaned."""
        other = copy.copy(self)
        other.config = replace(self.config, data=replace(self.config.data, clean=False))
        other._cleaner = None
        return other

    def _open(self) -> tuple[LabeledImages, GallerySplit]:
        data = self.config.data
        images = read_labeled_images(Path(data.path), self.cache, Keys(data.label_key, data.group_key))
        return images, load_or_make_gallery_split(images, self.config.split, self.cache)

    def score(self, network: Network, features_named: str | None = None) -> Result:
        """Metrics of a network; its features are taken from the cache when they are there.

        `features_named`: the ones to read, of those that the configuration leaves open; None: they are chosen here.
        """
        began = time.monotonic()
        options = self.config.features
        reading = reading_of(network, options.block, options.pooling, "features.")
        if features_named is not None:
            reading = replace(reading, choices=tuple(c for c in reading.choices if c.name == features_named))
        if len(reading.choices) > 1:
            refuse_without_gallery(self.split)
        features = network_features(
            network,
            self.images,
            self.images.sha256,
            FeatureCache(self.cache / "features"),
            reading.kind,
            batch_size=options.batch_size,
            device=options.device,
            device_key="features.device",
            threads=options.threads,
            half_precision=options.half_precision,
            group=self.group,
            clean=self._cleaner,
        )
        chosen = choose_in_gallery(
            reading, features, self.images, self.split, shown_k(self.config), self.config, self.group
        )
        return self._metrics(network, chosen.choice.of(features), began, chosen)

    def score_model(
        self,
        model: nn.Module,
        name: str,
        step: int | None = None,
        preprocessing: Preprocessing | None = None,
        certificate: Certificate | None = None,
    ) -> Result:
        """Metrics of a live model, wherever it is and however it is sharded. Nothing is cached."""
        self.config.features.refuse_choice("the evaluation of a live model")
        began = time.monotonic()
        preprocessing = preprocessing or Preprocessing()
        network = Network(
            name=name,
            word=name,
            source="live model",
            architecture=type(model).__name__,
            weights_sha256="",
            preprocessing=preprocessing,
            load=lambda: model,
            step=step,
            certificate=certificate,
        )
        options = self.config.features
        features = extract_features(
            model,
            self.images,
            preprocessing,
            options.batch_size,
            threads=options.threads,
            half_precision=options.half_precision,
            label=f"features of {name}",
            group=self.group,
            clean=self._cleaner,
        )
        return self._metrics(network, features, began)

    def _metrics(self, network: Network, features: torch.Tensor, began: float, chosen: Chosen | None = None) -> Result:
        config, images, split = self.config, self.images, self.split
        rows = features.numpy()
        if not np.isfinite(rows).all():
            raise UserError(f"{network.name} gives features that are not finite (nan or inf); use another checkpoint.")
        rank = rankme(rows)
        decay = alpha_req(rows)
        # From here on rows of length 1, in place: at the size of an atlas a copy is gigabytes.
        unit_rows(rows, out=rows)
        gallery = rows if len(split.gallery) == len(rows) else rows[split.gallery]
        labels, query_groups = images.labels[split.queries], split.groups[split.queries]
        scored = class_scores(
            rows[split.queries],
            gallery,
            images.labels[split.gallery],
            len(images.class_names),
            config.ks,
            config.temperature,
            config.search,
            groups_to_keep_apart(split),
            self.group,
            unit=True,
        )
        at_k: dict[str, MetricsAtK] = {}
        weights = group_weights(query_groups, config.bootstrap.replicates, config.bootstrap.seed)
        for k in config.ks:
            at_k[str(k)] = metrics_at_k(
                scored.scores[k],
                labels,
                images.class_names,
                weights,
                config.bootstrap.confidence,
                min(k, len(split.gallery)),
            )
        document = KnnDocument(
            checkpoint=network.name,
            step=network.step,
            path=None if network.path is None else network.path.resolve().name,
            source=network.source,
            architecture=network.architecture,
            weights_sha256=network.weights_sha256,
            preprocessing=network.preprocessing.to_dict(),
            data=self._describe_data(),
            temperature=config.temperature,
            interval_confidence=config.bootstrap.confidence,
            k=at_k,
            query_groups=" ".join(str(group) for group in query_groups.tolist()),
            rankme=rank,
            alpha_req=decay,
            search_recall=scored.neighbors.recall,
            leakage=leakage_note(network, images),
            features=OWN_OUTPUT if chosen is None else chosen.choice.name,
            features_tried={} if chosen is None else chosen.tried,
            evaluated=Evaluated(
                at=datetime.now(UTC).isoformat(timespec="seconds"),
                process=os.getpid(),
                seconds=round(time.monotonic() - began, 3),
            ),
        )
        return Result(document, rows, scored.neighbors, scored.scores[shown_k(config)].argmax(axis=1))

    def _comparable(self) -> str:
        """What two results must share to be compared: the split, and how images were read."""
        if not self.config.data.clean:
            return self.split.sha256
        return hashlib.sha256(f"{self.split.sha256} cleaned".encode()).hexdigest()

    def _describe_data(self) -> EvaluatedData:
        return EvaluatedData(
            path=self.images.root.resolve().name,
            sha256=self.images.sha256,
            classes=self.images.class_names,
            gallery=len(self.split.gallery),
            queries=len(self.split.queries),
            unreadable=len(self.images.skipped),
            split_file=None if self.split.path is None else self.split.path.name,
            split_sha256=self._comparable(),
            leave_one_group_out=self.split.leave_one_group_out,
            clean=bool(self.config.data.clean),
        )


def evaluate(
    model: nn.Module,
    config: SetConfig,
    name: str = "model",
    step: int | None = None,
    preprocessing: Preprocessing | None = None,
    certificate: Certificate | None = None,
    group: dist.ProcessGroup | None = None,
) -> Result:
    """Score a live model once. A trainer that scores often keeps an `Evaluator` instead."""
    return Evaluator(config, group).score_model(model, name, step, preprocessing, certificate)


def evaluation_of(document: KnnDocument) -> Evaluation:
    """What selection needs of a result."""
    return Evaluation(
        checkpoint=document.checkpoint,
        step=document.step,
        values=document.values,
        ranks={k: at_k.rank_of_truth for k, at_k in document.k.items()},
        groups=tuple(int(group) for group in document.query_groups.split()),
        split_sha256=document.data.split_sha256,
    )


def groups_to_keep_apart(split: GallerySplit) -> Groups | None:
    """None when gallery and queries share no group."""
    if not split.leave_one_group_out:
        return None
    return Groups(split.groups[split.queries], split.groups[split.gallery])


def shown_k(config: SetConfig) -> int:
    """The k whose predictions are drawn: the selection's, else the one nearest to 20."""
    k = config.selection.metric.rpartition("_k")[2]
    return int(k) if k.isdigit() else min(config.ks, key=lambda k: abs(k - 20))


def on_first_rank(work: Callable[[], T], group: dist.ProcessGroup | None) -> T:
    """Do it on the first rank and give its result, or its `UserError`, to all."""
    rank, world = rank_and_world(group)
    if world == 1:
        return work()
    answer: list[Any] = [None, None]
    if rank == 0:
        try:
            answer[0] = work()
        except UserError as error:
            answer[1] = str(error)
    dist.broadcast_object_list(answer, 0 if group is None else dist.get_global_rank(group, 0), group=group)
    if answer[1] is not None:
        raise UserError(answer[1])
    result: T = answer[0]
    return result
