"""What curation will cost: time, disk and memory by number of frames, from rates measured here or stated below.

docs/explanation/scale.md says where each stated rate comes from.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from data_pipeline.cost import Conditions
from data_pipeline.curate.config import ClusteringConfig

# A network reaches so much of a core's speed in matrix products: ViT-S/14 and ViT-B/14 at 224 px, one thread.
NETWORK_EFFICIENCY = 0.85
# To read a frame's JPEG and bring it to the network's size.
READING_SECONDS = 5e-3
# `python -m benchmarks.scale curation`: a core's seconds to compare a frame with another of its cluster, and a value.
NEAR_DUPLICATE_SECONDS = 2e-6 / 256
# Of each frame in memory, counted: key, clusters, weight, and what the manifest says of it.
FRAME_BYTES = 250
# The sample, and the points of a resampling with what FAISS has of them.
_SAMPLE_COPIES = 2.0
# k-means draws its first centers in rounds, in each of which the points are compared with more of them.
_START_PASSES = 4.5
_FLOAT_BYTES = 4


@dataclass(frozen=True)
class FeatureNetwork:
    """The network whose features are clustered."""

    flops: float  # of one frame
    width: int


@dataclass(frozen=True)
class CurationCost:
    """For a number of frames."""

    frames: int
    features_hours: float  # on all cores
    clusters_hours: float  # on the cores of one machine
    disk_gb: float  # of the features
    memory_gb: float  # of the process that clusters
    bottleneck: str

    @property
    def hours(self) -> float:
        return self.features_hours + self.clusters_hours


def curation_cost_of(
    frames: int, network: FeatureNetwork, flops_per_second: float, given: Conditions, config: ClusteringConfig
) -> CurationCost:
    """`flops_per_second`: of one core, in matrix products."""
    a_frame = network.flops / (NETWORK_EFFICIENCY * flops_per_second) + READING_SECONDS
    features = frames * a_frame / given.cores / 3600
    others = frames / config.levels(frames)[0]  # frames of a cluster
    near = frames * others * network.width * NEAR_DUPLICATE_SECONDS
    seconds = clustering_flops(frames, network.width, config) / flops_per_second + near
    clusters = seconds / given.driver_cores / 3600
    row = network.width * _FLOAT_BYTES
    memory = (_SAMPLE_COPIES * min(frames, config.sample_frames) * row + frames * FRAME_BYTES) / 1e9
    bottleneck = "cores (features)" if features > clusters else "one machine's cores (clusters)"
    return CurationCost(
        frames=frames,
        features_hours=features,
        clusters_hours=clusters,
        disk_gb=frames * row / 1e9,
        memory_gb=memory,
        bottleneck=bottleneck if memory < given.memory_gb else f"memory ({memory:.0f} GB)",
    )


def clustering_flops(frames: int, width: int, config: ClusteringConfig) -> float:
    """Products of points and centers: k-means on the sample and on what is resampled, and every frame's cluster."""
    clusters, sample = config.levels(frames)[0], min(frames, config.sample_frames)
    resampled = min(sample, config.resampled_points * clusters)
    points = sample + config.resamplings * resampled
    passes = points * (config.iterations + _START_PASSES) + config.resamplings * sample + frames
    return 2.0 * width * clusters * passes


def measured_flops_per_second() -> float:
    """Of one core, here and now, in products of float32 matrices of a network's size."""
    rng = np.random.default_rng(0)
    tokens, weights = (rng.standard_normal(shape, dtype=np.float32) for shape in ((1024, 1024), (1024, 4096)))
    best = np.inf
    for _ in range(4):
        began = time.process_time()  # of all threads
        tokens @ weights
        best = min(best, time.process_time() - began)
    return float(2.0 * tokens.size * weights.shape[1] / best)
