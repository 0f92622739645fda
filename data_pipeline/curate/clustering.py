"""Hierarchical k-means (after Vo et al., "Automatic Data Curation for Self-Supervised Learning", 2024), with FAISS.

The finest level clusters the frames, each further level the centroids of the one before. Plain k-means puts most of its
centroids where most of the data is; so the finest level is resampled: the few points next to every centroid make up a
set that is much more even than the data, and k-means runs again on it. It begins with centers that are far from each
other, because a rare scene is a few points that a random start misses.

The coarsest level joins centroids by average linkage and is cut where the heights of the joins have their largest gap:
k-means would cut the most frequent scene, which still has the most centroids, before it parts two rare ones. Where no
gap is clear, nothing is joined.

Of very many frames a sample is clustered, and all are assigned to its clusters, a chunk at a time: in memory are the
sample and a few numbers for each frame. Half of the sample is evenly spaced; the other half is drawn by the distance
from what the first half shows, because a rare scene is a few frames that an even sample misses.

Everything is a function of the features, the levels and the seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data_pipeline.curate.config import ClusteringConfig
from data_pipeline.curate.mapped import CHUNK, Features, Floats, Ints
from panendofm.runtime.errors import UserError

# Rounds in which the first centers are drawn; in each the distances of all points are computed once.
_START_ROUNDS = 8
# Centers of the even half of a sample, from which the distances of all frames are measured.
_ROUGH = 1024
# A gap between two joins is clear when it is so much of the highest one. Planted scenes had 0.22 or more, features
# without structure and real images without clear groups 0.08 or less.
_CLEAR_GAP = 0.15
# FAISS is content with fewer points per centroid than it likes; more than so many do not make them better.
_POINTS_PER_CENTROID = 256


@dataclass(frozen=True)
class Hierarchy:
    """Clusters of several levels, the finest first; the clusters of a level are the points of the next."""

    parents: list[Ints]  # per level: the cluster of each point; of the first, [N], the points are the frames
    centroids: list[Floats]  # per level [K, D]

    def of_frames(self) -> NDArray[np.int32]:
        """The cluster of each frame at each level [N, levels]."""
        columns = [self.parents[0]]
        for parents in self.parents[1:]:
            columns.append(parents[columns[-1]])
        return np.stack(columns, axis=1).astype(np.int32)


def cluster(features: Features, config: ClusteringConfig, seed: int) -> Hierarchy:
    """Cluster rows of unit length [N, D]."""
    if not len(features) or not all(np.isfinite(some).all() for _, some in features.chunks()):
        raise UserError("there are no features to cluster, or some are not finite; check the network.")
    counts = config.levels(len(features))
    sample = features.take(_sample(features, config, seed))
    points = _resampled_kmeans(sample, counts[0], config, config.resamplings, seed * 1000)
    del sample
    of_point = np.concatenate([nearest(some, points) for _, some in features.chunks()])
    of_point, points = _without_empty(of_point, points)
    parents, centroids = [of_point], [points]
    for level, count in enumerate(counts[1:-1], start=1):
        centers = _resampled_kmeans(points, count, config, 0, seed * 1000 + level)
        of_point, points = _without_empty(nearest(points, centers), centers)
        parents.append(of_point)
        centroids.append(points)
    of_point = _joined(points, config.coarsest_most)
    return Hierarchy([*parents, of_point], [*centroids, _means(points, of_point)])


def _sample(features: Features, config: ClusteringConfig, seed: int) -> Ints:
    """Rows on which k-means is trained: all, or as many as are wanted, rising."""
    count, wanted = len(features), config.sample_frames
    if count <= wanted:
        return np.arange(count)
    evenly = np.arange(wanted // 2) * count // (wanted // 2)
    rough = features.take(evenly[:: -(-len(evenly) // _ROUGH)])
    far = np.concatenate([_distances(some, rough, nearest(some, rough)) for _, some in features.chunks()])
    far[evenly] = 0
    drawn = _drawn(far, wanted - len(evenly), np.random.Generator(np.random.PCG64(seed)))
    return np.union1d(evenly, drawn)


def _drawn(likely: NDArray[np.float64], wanted: int, rng: np.random.Generator) -> Ints:
    """So many places, each the more likely the larger its number is; never those of 0."""
    race = np.where(likely > 0, rng.exponential(size=len(likely)) / np.maximum(likely, 1e-30), np.inf)
    order = np.argsort(race, kind="stable")[:wanted]
    return order[np.isfinite(race[order])]


def _distances(points: Floats, centers: Floats, of_point: Ints) -> NDArray[np.float64]:
    """The squared distance of each point from its center."""
    chunks = [slice(begin, begin + CHUNK) for begin in range(0, len(points), CHUNK)]
    squares = (np.square(points[some] - centers[of_point[some]]) for some in chunks)
    return np.concatenate([some.sum(1, dtype=np.float64) for some in squares])


def nearest(points: Floats, centers: Floats) -> Ints:
    """The nearest center of each point [n]."""
    import faiss  # here and below: the command line answers --help without it

    index = faiss.IndexFlatL2(centers.shape[1])
    index.add(centers)
    found: Ints = index.search(points, 1)[1][:, 0]
    return found


def _kmeans(points: Floats, count: int, config: ClusteringConfig, seed: int) -> Floats:
    import faiss

    if count >= len(points):
        return points
    kmeans = faiss.Kmeans(
        points.shape[1],
        count,
        niter=config.iterations,
        seed=seed % (1 << 31),
        min_points_per_centroid=1,
        max_points_per_centroid=_POINTS_PER_CENTROID,
    )
    kmeans.train(points, init_centroids=_far_apart(points, count, seed))
    centers: Floats = np.asarray(kmeans.centroids, np.float32)
    return centers


def _resampled_kmeans(points: Floats, count: int, config: ClusteringConfig, resamplings: int, seed: int) -> Floats:
    centers = _kmeans(points, count, config, seed)
    for _ in range(resamplings if count < len(points) else 0):
        some = points[_next_to(points, centers, config.resampled_points)]
        if len(some) <= count:
            break
        centers = _kmeans(some, count, config, seed)
    return centers


def _means(points: Floats, of_point: Ints) -> Floats:
    sums = np.zeros((int(of_point.max()) + 1, points.shape[1]))
    np.add.at(sums, of_point, points)
    return (sums / np.bincount(of_point)[:, None]).astype(np.float32)


def _next_to(points: Floats, centers: Floats, most: int) -> Ints:
    """Of each cluster the points nearest to its center, at most so many, in the order of the points."""
    of_point = nearest(points, centers)
    distance = _distances(points, centers, of_point)
    line = np.lexsort((np.arange(len(points)), distance, of_point))
    starts = np.searchsorted(of_point[line], np.arange(len(centers)))
    rank = np.arange(len(points)) - starts[of_point[line]]
    return np.sort(line[rank < most])


def _without_empty(of_point: Ints, centers: Floats) -> tuple[Ints, Floats]:
    used, numbers = np.unique(of_point, return_inverse=True)
    return numbers.ravel().astype(np.int64), np.ascontiguousarray(centers[used])


def _far_apart(points: Floats, count: int, seed: int) -> Floats:
    """Centers to begin with, drawn in a few rounds by their squared distances to those that are there (k-means||)."""
    rng = np.random.Generator(np.random.PCG64(seed))
    chosen = np.zeros(len(points), bool)
    likely = np.ones(len(points))
    for number in range(_START_ROUNDS):
        wanted = -(-count * (number + 1) // _START_ROUNDS) - int(chosen.sum())
        likely[chosen] = 0
        chosen[_drawn(likely, wanted, rng)] = True
        centers = points[chosen]
        likely = _distances(points, centers, nearest(points, centers))
    missing = count - int(chosen.sum())  # there are fewer different points than centers
    return np.concatenate([points[chosen], points[np.flatnonzero(~chosen)[:missing]]])


def _joined(points: Floats, most: int) -> Ints:
    """The cluster of each point: average linkage, cut at the largest gap that leaves 2 to `most` clusters.

    Without a clear gap each point stays alone: a cut would part single odd points from all the rest.
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(points) < 3:
        return np.arange(len(points))
    tree = linkage(points.astype(np.float64), "average")
    heights = tree[:, 2]
    counts = np.arange(2, min(most, len(points) - 1) + 1)  # k clusters are left below the (k - 1)-th highest join
    gaps = heights[-(counts - 1)] - heights[-counts]
    if gaps.max() < _CLEAR_GAP * heights[-1]:
        return np.arange(len(points))
    best = int(counts[np.argmax(gaps)])
    clusters: Ints = fcluster(tree, best, "maxclust").astype(np.int64) - 1
    return clusters
