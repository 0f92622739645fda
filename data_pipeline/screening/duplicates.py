"""The same material twice: frozen and repeated frames within a video, copies of videos and images across a run.

Copies across the run are settled between the two phases, from the hashes of all frames that passed the screens. The
result depends on the order of the plan only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from data_pipeline.screening.alignment import aligned_share
from data_pipeline.screening.config import DuplicatesConfig
from panendofm.imaging.image_hash import HASH_BYTES, hamming_distances

Hashes = NDArray[np.uint8]  # [N, 32]
Pair = tuple[int, int]  # numbers of two sources, the smaller first

# Hashes that agree in one of these many pieces are looked at. Eight pieces of 32 bits find every pair that is at most
# seven bits apart, and nearly all copies of a video by one of their frames.
_PIECES = 8
# A piece that very many frames share (black frames, test images) says nothing; only the first few are paired.
_MAX_PARTNERS = 16
# Long videos agree in a piece here and there by chance. They are compared when the agreements reach this share of the
# shorter one's frames; copies that differ by 36 bits of 256 reach 0.06.
_MIN_AGREEMENTS = 0.01
# Copies whose single frames agree less are looked for by pieces of 16 bits, in so many frames of each video.
_FRAMES_OF_A_VIDEO = 64
# Such short pieces agree by chance too: so many times more often than that is a reason to align two videos.
_ABOVE_CHANCE = 3.0
_MIN_SHORT_AGREEMENTS = 6
# Pieces of 16 bits that more videos share say nothing.
_MAX_OWNERS = 64
# Frames of a video that are compared with the other: enough to know the share to a few percent, whatever the length.
_COMPARED_FRAMES = 512


class RepeatedFrames:
    """Screens the frames of one video, in order."""

    def __init__(self, config: DuplicatesConfig) -> None:
        self._config = config
        self._previous: Hashes | None = None
        self._kept: Hashes = np.empty((64, HASH_BYTES), np.uint8)  # the first `_count` rows are filled
        self._count = 0

    def drop_reason(self, image_hash: NDArray[np.uint8]) -> str | None:
        """Why this frame adds nothing, or None."""
        previous = self._previous
        self._previous = image_hash[None]
        if previous is not None and hamming_distances(previous, image_hash[None])[0, 0] <= self._config.frozen_bits:
            return "frozen"
        distances = hamming_distances(image_hash[None], self._kept[: self._count])
        return "near_duplicate" if (distances <= self._config.frame_bits).any() else None

    def keep(self, image_hash: NDArray[np.uint8]) -> None:
        if self._count == len(self._kept):
            self._kept = np.concatenate([self._kept, np.empty_like(self._kept)])
        self._kept[self._count] = image_hash
        self._count += 1


@dataclass(frozen=True)
class SourceHashes:
    """The frames of one source that passed the screens, in plan order; `times` rise, in seconds or in frames."""

    source_id: str
    single: bool  # a single image, not a video or sequence
    hashes: Hashes
    times: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))  # [N]; without them nothing is aligned


def copies_across(sources: list[SourceHashes], config: DuplicatesConfig) -> dict[str, tuple[str, str]]:
    """Which sources to drop: source id → (reason, id of the source that stays)."""
    dropped: dict[str, tuple[str, str]] = {}
    pairs = _pairs_that_share_pieces(sources)
    for pair in sorted({*pairs, *_pairs_to_align(sources)}):
        a, b = (sources[number] for number in pair)
        if a.source_id in dropped or b.source_id in dropped or a.single or b.single:
            continue
        if max(shares := _shares(a, b, config)) < config.video_share:
            continue
        # The shorter one goes; of two equals the later.
        goes, stays = (a, b) if len(a.hashes) < len(b.hashes) and shares[0] >= config.video_share else (b, a)
        if shares[0 if goes is a else 1] >= config.video_share:
            dropped[goes.source_id] = ("duplicate_video", stays.source_id)
    for first, second in pairs:
        a, b = sources[first], sources[second]
        if a.source_id in dropped or b.source_id in dropped or not (a.single or b.single):
            continue
        if hamming_distances(a.hashes, b.hashes).min() <= config.image_bits:
            goes, stays = (b, a) if b.single else (a, b)
            dropped[goes.source_id] = ("duplicate_image", stays.source_id)
    return dropped


def _shares(a: SourceHashes, b: SourceHashes, config: DuplicatesConfig) -> tuple[float, float]:
    """The share of each video that the other one holds, frame by frame or along a line in time."""
    both = ((a, b), (b, a))
    shares = [_share_within(x.hashes, y.hashes, config.video_bits) for x, y in both]
    if max(shares) < config.video_share and len(a.times) and len(b.times):
        shares = [aligned_share(x.hashes, x.times, y.hashes, y.times, config.aligned_bits) for x, y in both]
    return shares[0], shares[1]


def _share_within(some: Hashes, others: Hashes, max_distance: int) -> float:
    """The share of `some` frames that are near one of the `others`, from an even sample when there are very many."""
    return float((hamming_distances(_even_sample(some, _COMPARED_FRAMES), others) <= max_distance).any(axis=1).mean())


def _pairs_to_align(sources: list[SourceHashes]) -> list[Pair]:
    """Videos whose frames agree in more pieces of 16 bits than those of strangers do, in order."""
    videos = [i for i, source in enumerate(sources) if not source.single and len(source.times)]
    if len(videos) < 2:
        return []
    looked_at = [_even_sample(sources[i].hashes, _FRAMES_OF_A_VIDEO) for i in videos]
    owners = np.repeat(np.arange(len(videos)), [len(hashes) for hashes in looked_at])
    pieces = np.ascontiguousarray(np.concatenate(looked_at)).view(np.uint16)  # [N, 16]
    agreements: Counter[Pair] = Counter()
    for column in pieces.T:
        # Every video once for each value of the piece; then all pairs of those that stand beside one another.
        found = np.unique(column.astype(np.int64) * len(videos) + owners)
        values, own = np.divmod(found, len(videos))
        for apart in range(1, min(_MAX_OWNERS, len(found))):
            same = values[apart:] == values[:-apart]
            if not same.any():
                break
            agreements.update(zip(own[:-apart][same].tolist(), own[apart:][same].tolist(), strict=True))
    lengths = np.bincount(owners)
    return sorted(
        (videos[first], videos[second])
        for (first, second), count in agreements.items()
        if count >= _MIN_SHORT_AGREEMENTS
        and count >= _ABOVE_CHANCE * pieces.shape[1] * lengths[first] * lengths[second] / 2**16
    )


def _even_sample(hashes: Hashes, count: int) -> Hashes:
    rows = np.linspace(0, len(hashes) - 1, min(len(hashes), count)).round().astype(int)
    return np.asarray(hashes[rows], np.uint8)


def _pairs_that_share_pieces(sources: list[SourceHashes]) -> list[Pair]:
    """Numbers of sources whose frames agree in enough pieces of their hashes, in order."""
    filled = [i for i, source in enumerate(sources) if len(source.hashes)]
    if not filled:
        return []
    owners = np.concatenate([np.full(len(sources[i].hashes), i) for i in filled])
    hashes = np.ascontiguousarray(np.concatenate([sources[i].hashes for i in filled]))
    pieces = hashes.view(np.uint32)  # [N, _PIECES]
    agreements: Counter[Pair] = Counter()
    for column in range(_PIECES):
        _, group, counts = np.unique(pieces[:, column], return_inverse=True, return_counts=True)
        members: dict[int, dict[int, None]] = defaultdict(dict)
        for row in np.flatnonzero(counts[group] > 1):
            members[int(group[row])].setdefault(int(owners[row]))
        for sharing in members.values():
            numbers = sorted(sharing)
            for i, first in enumerate(numbers[:_MAX_PARTNERS]):
                agreements.update((first, second) for second in numbers[i + 1 :])
    return sorted(
        (first, second)
        for (first, second), count in agreements.items()
        if count >= _MIN_AGREEMENTS * min(len(sources[first].hashes), len(sources[second].hashes))
    )
