"""1, 2 and 4 ranks give the same scores; a live sharded model and its checkpoint give the same figures as its file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import fork_server
import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.fsdp import fully_shard

from eval_knn import EvalConfig, evaluate
from eval_knn.__main__ import STAGE
from eval_knn.search.groups import Groups
from eval_knn.search.vote import class_scores
from panendofm.backbone import VisionTransformer, vit_config
from panendofm.backbone.command_config import ExportConfig
from panendofm.records.documents import as_document
from panendofm.runtime.command_line import run_stage
from panendofm.runtime.errors import UserError
from panendofm.runtime.ports import free_port

KS = (10, 20, 100, 200)
RANKS = 4
GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "knn_8class.npz"


def cases() -> dict[str, tuple[Any, ...]]:
    """Queries, gallery, gallery labels and groups of what is scored at each world size."""
    data = np.load(GOLDEN)
    queries, gallery, labels = data["test_features"], data["train_features"], data["train_labels"]
    random = np.random.default_rng(0)
    repeated = gallery[random.integers(0, 12, 600)]  # 12 rows, each about 50 times: ties everywhere
    return {
        "golden": (queries, gallery, labels, None),
        "gallery smaller than k": (queries, gallery[:30], labels[:30], None),
        "ties": (queries, repeated, random.integers(0, 8, 600), None),
        "fewer queries than ranks": (queries[:3], gallery, labels, None),
        "exclusions": (queries, gallery, labels, Groups(np.arange(160) % 7, np.arange(800) % 7)),
    }


def live_model() -> VisionTransformer:
    torch.manual_seed(0)
    return VisionTransformer(vit_config("vit_test")).eval()


def small_config(data: str, cache: str) -> EvalConfig:
    config = EvalConfig()
    config.data.path, config.cache, config.bootstrap.replicates, config.features.batch_size = data, cache, 20, 8
    return config


def work(rank: int, port: int, folder: str, data: str) -> None:
    os.environ["RANK"] = str(rank)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    scores: dict[str, torch.Tensor] = {}
    for size in (1, 2, 4):
        group = dist.new_group(list(range(size)))
        for name, (queries, gallery, labels, groups) in cases().items():
            if rank < size:
                scored = class_scores(queries, gallery, labels, 8, KS, groups=groups, group=group).scores
                scores |= {f"{name} {size} {k}": torch.from_numpy(value) for k, value in scored.items()}
    torch.save(scores, Path(folder) / f"scores-{rank}.pt")
    model = live_model()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    document = evaluate(model, small_config(data, f"{folder}/cache-{rank}"), "live", step=7).document
    (Path(folder) / f"live-{rank}.json").write_text(json.dumps(as_document(document)))
    try:
        evaluate(model, small_config(f"{folder}/nowhere", f"{folder}/cache-{rank}"))
    except UserError as error:
        (Path(folder) / f"error-{rank}").write_text(str(error))
    checkpoint = Path(folder) / "run" / "checkpoints" / "step_0000007"
    state = {f"teacher.backbone.{key}": value for key, value in get_model_state_dict(model).items()}
    dcp.save(state, checkpoint_id=checkpoint)
    if rank == 0:
        description = {"format": 1, "step": 7, "vit": model.config.to_dict(), "certificate": None}
        (checkpoint / "checkpoint.json").write_text(json.dumps(description))
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory, labeled_folder: Path) -> Path:
    """What four ranks wrote, computed once for all tests here."""
    folder = tmp_path_factory.mktemp("ranks")
    port = free_port()
    fork_server.run_ranks(work, (port, str(folder), str(labeled_folder)), RANKS)
    return folder


@pytest.mark.parametrize("size", [1, 2, 4])
def test_golden_scores(outcome: Path, size: int) -> None:
    data = np.load(GOLDEN)
    for rank in range(size):
        scores = torch.load(outcome / f"scores-{rank}.pt", weights_only=True)
        for k in KS:
            np.testing.assert_allclose(scores[f"golden {size} {k}"], data[f"probas_k{k}"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in cases() if name != "golden"])
def test_other_scores_do_not_depend_on_the_ranks(outcome: Path, name: str) -> None:
    """The values of one process are tested against the plain formula in test_knn_scoring.py."""
    queries, gallery, labels, groups = cases()[name]
    expected = class_scores(queries, gallery, labels, 8, KS, groups=groups).scores
    for size in (1, 2, 4):
        for rank in range(size):
            scores = torch.load(outcome / f"scores-{rank}.pt", weights_only=True)
            for k in KS:
                np.testing.assert_allclose(scores[f"{name} {size} {k}"], expected[k], rtol=0, atol=1e-5)


def figures_of(document: dict[str, Any]) -> dict[str, Any]:
    """What must not depend on the way a network was loaded. Class scores are rounded sums: compare what follows."""
    return {key: document[key] for key in ("k", "data", "preprocessing", "query_groups")} | {
        "rankme": round(document["rankme"], 3),
    }


def test_live_sharded_model_scores_like_its_file(outcome: Path, labeled_folder: Path) -> None:
    documents = [json.loads((outcome / f"live-{rank}.json").read_text()) for rank in range(RANKS)]
    alone = as_document(
        evaluate(live_model(), small_config(str(labeled_folder), str(outcome / "cache-0")), "live", step=7).document
    )
    for document in documents:
        document["data"]["split_file"] = alone["data"]["split_file"]
        assert figures_of(document) == figures_of(alone)
        assert document["step"] == 7 and document["checkpoint"] == "live"


def test_a_mistake_reaches_every_rank(outcome: Path) -> None:
    assert all("nowhere" in (outcome / f"error-{rank}").read_text() for rank in range(RANKS))


def test_identical_figures_for_identical_weights(
    outcome: Path, labeled_folder: Path, tmp_path: Path, weights_file: Path
) -> None:
    """A plain file, a sharded checkpoint written by four ranks, and a release in each format, through the command."""
    from panendofm.backbone.release import export_release

    words = [str(weights_file), str(outcome / "run" / "checkpoints" / "step_0000007")]
    for kind in ("hub", "timm", "transformers"):
        export_release(weights_file, ExportConfig(str(tmp_path / f"release-{kind}"), formats=[kind]))
        words.append(str(tmp_path / f"release-{kind}"))
    documents = []
    for number, word in enumerate(words):
        # A cache of its own for each, or the first one's features would serve all.
        out = tmp_path / f"out-{number}"
        keys = [f"data.path={labeled_folder}", f"cache={tmp_path / f'cache-{number}'}", f"out={out}"]
        with pytest.raises(SystemExit) as end:
            run_stage(STAGE, [word, *keys, "bootstrap.replicates=20"])
        assert end.value.code == 0
        documents.append(json.loads(next(out.glob("*.json")).read_text()))
        documents[-1]["data"]["split_file"] = ""
    assert len({document["weights_sha256"] for document in documents}) == 1
    for document in documents[1:]:
        assert figures_of(document) == figures_of(documents[0])
    assert [document["source"] for document in documents] == ["official", "checkpoint", *["release"] * 3]
    assert documents[1]["step"] == 7
