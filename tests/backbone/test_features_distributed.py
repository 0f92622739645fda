"""Features on 1, 2, 3 and 4 ranks: the same rows in the same order, none twice, also with a sharded model."""

from __future__ import annotations

import tempfile
from pathlib import Path

import fork_server
import numpy as np
import pytest
import torch
import torch.distributed as dist
from PIL import Image
from torch.distributed.fsdp import fully_shard

from panendofm.backbone import VisionTransformer, vit_config
from panendofm.backbone.feature_cache import FeatureCache, FeatureKey
from panendofm.backbone.features import extract_features
from panendofm.backbone.preprocessing import Preprocessing
from panendofm.imaging.images import UnreadableImageError
from panendofm.runtime.ports import free_port

SMALL = Preprocessing(resize_px=32, crop_px=28)
RANKS = 4


def images() -> list[Image.Image]:
    random = np.random.default_rng(0)
    return [Image.fromarray(random.integers(0, 256, (40, 30, 3), dtype=np.uint8)) for _ in range(9)]


def network() -> VisionTransformer:
    torch.manual_seed(0)
    return VisionTransformer(vit_config("vit_test"))


def work(rank: int, port: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    results: dict[str, object] = {}
    model = network()
    for size in range(1, RANKS + 1):
        group = dist.new_group(list(range(size)))
        if rank < size:
            for count in (9, 2):  # 2 images leave some ranks with none
                features = extract_features(model, images()[:count], SMALL, batch_size=2, group=group)
                results[f"{size} ranks, {count} pictures"] = features
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    # 9 images on 4 ranks in batches of 2: one rank has a batch more than the others, which must not wait for ever.
    results["sharded"] = extract_features(model, images(), SMALL, batch_size=2)
    cache = FeatureCache(Path(folder) / f"cache-{rank}")  # no common disk: only the first rank's entry exists
    key = FeatureKey("w", "d", SMALL)
    for attempt in ("computed", "cached"):
        results[attempt] = cache.load_or_compute(key, lambda: extract_features(network(), images(), SMALL))
    try:
        extract_features(network(), [*images(), "absent.jpg"], SMALL)
    except UnreadableImageError as error:
        results["error"] = str(error)
    torch.save(results, Path(folder) / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def results() -> list[dict[str, torch.Tensor]]:
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        fork_server.run_ranks(work, (port, folder), RANKS)
        assert sorted(path.parent.name for path in Path(folder).rglob("*.npy")) == ["cache-0"]
        return [torch.load(Path(folder) / f"{rank}.pt", weights_only=True) for rank in range(RANKS)]


def test_all_world_sizes_agree(results: list[dict[str, torch.Tensor]]) -> None:
    expected = extract_features(network(), images(), SMALL, batch_size=2)
    for size in range(1, RANKS + 1):
        for count in (9, 2):
            for rank in range(size):
                got = results[rank][f"{size} ranks, {count} pictures"]
                torch.testing.assert_close(got, expected[:count], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", ["sharded", "computed", "cached"])
def test_every_rank_holds_all_rows(results: list[dict[str, torch.Tensor]], case: str) -> None:
    expected = extract_features(network(), images(), SMALL)
    for rank in range(RANKS):
        torch.testing.assert_close(results[rank][case], expected, rtol=1e-5, atol=1e-6)


def test_a_bad_image_fails_on_every_rank(results: list[dict[str, torch.Tensor]]) -> None:
    assert ["absent.jpg" in str(result["error"]) for result in results] == [True] * RANKS
