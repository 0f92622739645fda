"""The training step over several processes (gloo): FSDP2 against one process and against the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from golden_steps import assert_close, load_golden, loaded, stepper_of, without_key_bias
from rank_scenarios import evenly_masked, run_on_ranks, state_of

from pretrain.monitoring.health import collapse_metrics
from pretrain.objective.losses import koleo_loss
from pretrain.objective.targets import SinkhornKnopp
from pretrain.parallel.world import joined_world

# Sums over ranks are added in another order than in one process: the golden tolerances hold all the same.
LOSS, GRADIENT, WEIGHT = 1e-5, 1e-4, 5e-4


@pytest.fixture(scope="module")
def two_ranks(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    scenarios = [
        "golden_two_ranks_sharded",
        "golden_two_ranks_replicated",
        "global_batch_sinkhorn",
        "global_batch_centering",
        "rank_without_masks",
        "bf16_parameters",
        "gram_and_registers",
        "collapse",
        "collective_pieces",
    ]
    return run_on_ranks(2, scenarios, golden, tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module")
def four_ranks(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    scenarios = ["global_batch_sinkhorn", "global_batch_centering", "collective_pieces"]
    return run_on_ranks(4, scenarios, golden, tmp_path_factory.mktemp("four"))


@pytest.fixture(params=["two_ranks", "four_ranks"])
def ranks(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return request.getfixturevalue(request.param)


def prefixed(state: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}


def mean_of(*losses: dict[str, float]) -> dict[str, float]:
    return {name: sum(each[name] for each in losses) / len(losses) for name in losses[0]}


@pytest.mark.parametrize("way", ["sharded", "replicated"])
def test_golden_step_on_two_ranks(golden: Path, two_ranks: list[dict[str, Any]], way: str) -> None:
    step = load_golden(golden, "step_sinkhorn_2ranks")
    expected = mean_of(*(step.losses(f"rank{rank}/step0/") for rank in range(2)))
    for results in two_ranks:
        result = results[f"golden_two_ranks_{way}"]
        assert result["losses"][0] == pytest.approx(expected, rel=LOSS)
        assert result["norms"][0] == pytest.approx(step.norms(), rel=LOSS)
        assert_close(result["gradients"], step.tensors("step0/grad/"), GRADIENT)
        for network in ("student", "teacher"):
            found = without_key_bias(prefixed(result["state"], f"{network}."))
            assert_close(found, without_key_bias(step.tensors(f"final/{network}/")), WEIGHT)


def test_sharded_equals_replicated(two_ranks: list[dict[str, Any]]) -> None:
    for results in two_ranks:
        one, other = results["golden_two_ranks_sharded"], results["golden_two_ranks_replicated"]
        assert one["losses"][0] == pytest.approx(other["losses"][0], rel=1e-6)
        assert_close(one["gradients"], other["gradients"], 1e-5)


def test_global_batch_with_sinkhorn_equals_one_process(golden: Path, ranks: list[dict[str, Any]]) -> None:
    """The reference's one-process step, sharded: Sinkhorn's rows are global, KoLeo looks across ranks."""
    step = load_golden(golden, "step_sinkhorn_separate_heads")
    results = [r["global_batch_sinkhorn"] for r in ranks]
    for result in results:
        assert result["losses"][0] == pytest.approx(step.losses("step0/"), rel=LOSS)
        assert result["norms"][0] == pytest.approx(step.norms(), rel=LOSS)
        assert_close(result["gradients"], step.tensors("step0/grad/"), GRADIENT)
        for network in ("student", "teacher"):
            found = without_key_bias(prefixed(result["state"], f"{network}."))
            assert_close(found, without_key_bias(step.tensors(f"final/{network}/")), WEIGHT)


def test_global_batch_with_centering_equals_one_process(golden: Path, ranks: list[dict[str, Any]]) -> None:
    step = load_golden(golden, "step_centering_shared_head_2steps")
    objective = step.objective()
    with joined_world("cpu", 60) as world:
        stepper = stepper_of(objective, world)
        alone = [stepper.run([loaded(evenly_masked(step, i), i)], step.values).read() for i in range(2)]
        state = state_of(objective)
    assert state["dino_targets.center"].abs().max() > 0
    for result in (r["global_batch_centering"] for r in ranks):
        for losses, expected in zip(result["losses"], alone, strict=True):
            assert losses == pytest.approx(expected.losses, rel=LOSS)
        assert_close(without_key_bias(result["state"]), without_key_bias(state), WEIGHT)


def test_rank_without_masked_patches(two_ranks: list[dict[str, Any]]) -> None:
    for results in two_ranks:
        for result in results["rank_without_masks"].values():
            assert all(torch.isfinite(tensor).all() for tensor in result["state"].values())
            assert result["losses"][0]["ibot"] > 0  # that of the rank that has patches
    state = two_ranks[0]["rank_without_masks"]["step_centering_shared_head_2steps"]["state"]
    assert state["ibot_targets.center"].abs().max() > 0  # the center of the rank that has patches


def test_bf16_parameters_keep_fp32_shards(golden: Path, two_ranks: list[dict[str, Any]]) -> None:
    step = load_golden(golden, "step_sinkhorn_2ranks")
    expected = mean_of(*(step.losses(f"rank{rank}/step0/") for rank in range(2)))
    for results in two_ranks:
        result = results["bf16_parameters"]
        assert result["losses"][0] == pytest.approx(expected, rel=0.03)
        assert all(tensor.dtype == torch.float32 for tensor in result["state"].values())


def test_anchor_backbone_is_sharded_and_never_moves(golden: Path, two_ranks: list[dict[str, Any]]) -> None:
    start = load_golden(golden, "step_sinkhorn_2ranks").tensors("init/teacher/backbone.")
    for results in two_ranks:
        assert results["gram_and_registers"]["losses"][0]["gram"] > 0
        assert_close(prefixed(results["gram_and_registers"]["state"], "anchor_backbone."), start, 0)


def test_state_dict_keys(two_ranks: list[dict[str, Any]]) -> None:
    starts = {".".join(key.split(".")[:2]) for key in two_ranks[0]["golden_two_ranks_sharded"]["state"]}
    networks = {f"{n}.{part}" for n in ("student", "teacher") for part in ("backbone", "dino_head", "ibot_head")}
    assert starts == networks
    centers = {key for key in two_ranks[0]["global_batch_centering"]["state"] if "center" in key}
    assert centers == {"dino_targets.center", "ibot_targets.center"}


def test_collectives_equal_one_process_on_all_rows(ranks: list[dict[str, Any]]) -> None:
    world = len(ranks)
    results = [r["collective_pieces"] for r in ranks]
    rows = torch.randn(4 * world, 8, generator=torch.Generator().manual_seed(5)).requires_grad_()
    loss = koleo_loss(rows)
    loss.backward()
    assert sum(r["koleo"] for r in results) / world == pytest.approx(loss.item(), rel=1e-6)
    # The gradient of the mean over ranks is the mean of what each rank's loss gives.
    assert_close({"g": torch.cat([r["koleo_gradient"] for r in results]) / world}, {"g": rows.grad}, 1e-5)
    targets = SinkhornKnopp()(rows.detach(), 0.1)
    assert_close({"q": torch.cat([r["sinkhorn"] for r in results])}, {"q": targets}, 1e-5)
    expected = torch.arange(4.0 * world)[:, None].expand(-1, 8) * world
    assert torch.equal(torch.cat([r["gather_gradient"] for r in results]), expected)


def test_collapse_figures_are_those_of_all_ranks_together(golden: Path, two_ranks: list[dict[str, Any]]) -> None:
    step = load_golden(golden, "step_centering_shared_head_2steps")
    expected = collapse_metrics(step.objective(), step.batch("step0/"), 0.07)
    assert expected["rank_me"] > 1
    for results in two_ranks:
        assert results["collapse"] == pytest.approx(expected, rel=1e-4)


def test_center_is_the_mean_of_rank_means(two_ranks: list[dict[str, Any]]) -> None:
    rows = torch.randn(8, 8, generator=torch.Generator().manual_seed(5))
    expected = 0.1 * (rows[:2].mean(0) + rows[4:7].mean(0)) / 2
    for results in two_ranks:
        assert_close({"c": results["collective_pieces"]["center"][0]}, {"c": expected}, 1e-6)
