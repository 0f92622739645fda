"""What the tests of several ranks run in each process: real processes, gloo, FSDP2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fork_server
import torch
import torch.distributed as dist
from distill_reference import DINO, IBOT, LARGE, TEMPERATURE, batch_of, objective_of
from golden_steps import CLIP_NORM, GoldenStep, load_golden, loaded, optimizer_of, stepper_of, whole
from torch import Tensor

from pretrain.data.batch import Batch, make_batch
from pretrain.monitoring.health import collapse_metrics
from pretrain.objective.dinov2 import DinoObjective
from pretrain.objective.distillation.objective import TeacherForm
from pretrain.objective.losses import koleo_loss
from pretrain.objective.targets import Centering, SinkhornKnopp
from pretrain.optimizer.clipping import clip_per_submodule
from pretrain.optimizer.parameter_groups import set_step_values
from pretrain.parallel.collectives import gather_rows, rank, world_size
from pretrain.parallel.config import ShardingConfig
from pretrain.parallel.world import World
from pretrain.sharding import make_mesh, shard_objective

Result = dict[str, Any]


def run_on_ranks(world: int, scenarios: list[str], golden: Path, scratch: Path) -> list[dict[str, Result]]:
    """Run the named functions of this file on `world` processes; what every rank returned, by scenario."""
    fork_server.run_ranks(_process, (world, scenarios, golden, scratch), world)
    return [torch.load(scratch / f"rank{i}.pt", weights_only=True) for i in range(world)]


def _process(rank: int, world: int, scenarios: list[str], golden: Path, scratch: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{scratch / 'rendezvous'}", rank=rank, world_size=world)
    results = {}
    for name in scenarios:
        torch.manual_seed(0)
        function: Callable[[Path], Result] = globals()[name]
        results[name] = function(golden)
    torch.save(results, scratch / f"rank{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def state_of(objective: DinoObjective) -> dict[str, Tensor]:
    return {name: whole(tensor) for name, tensor in objective.state_dict().items()}


def share_of(batch: Batch) -> Batch:
    """This rank's images of a batch that all ranks hold."""
    images = batch.images // world_size()
    mine = slice(rank() * images, (rank() + 1) * images)

    def pick(x: Tensor, crops: int) -> Tensor:
        return x.unflatten(0, (crops, batch.images))[:, mine].flatten(0, 1)

    local = pick(batch.local_crops, batch.local_crops_per_image)
    return make_batch(pick(batch.global_crops, 2), local, pick(batch.masks, 2))


def this_world() -> World:
    control, saving = (dist.new_group(backend="gloo") for _ in range(2))
    return World(rank(), world_size(), world_size(), torch.device("cpu"), control, saving)


def _steps(
    objective: DinoObjective, step: GoldenStep, batches: list[Batch], param_type: torch.dtype | None = None
) -> Result:
    """Run a run's steps and tell everything: losses (means over ranks), norms, first gradients, weights at the end."""
    stepper = stepper_of(objective, this_world(), param_type)
    results: Result = {"losses": [], "norms": []}
    for i, batch in enumerate(batches):
        result = stepper.run([loaded(batch, i)], step.values).read()
        assert not result.skipped
        results["losses"].append(result.losses)
        results["norms"].append(result.gradient_norms)
        if i == 0:
            # Gradients are clipped by now: scale them back.
            results["gradients"] = {
                name: whole(p.grad) * max(result.gradient_norms[name.split(".")[0]] / CLIP_NORM, 1.0)
                for name, p in objective.student.named_parameters()
            }
    results["state"] = state_of(objective)
    return results


def golden_two_ranks_sharded(golden: Path) -> Result:
    step = load_golden(golden, "step_sinkhorn_2ranks")
    return _steps(step.objective(), step, [step.batch(f"rank{rank()}/step0/")])


def golden_two_ranks_replicated(golden: Path) -> Result:
    """Every rank holds everything; gradients are averaged by hand."""
    step = load_golden(golden, "step_sinkhorn_2ranks")
    objective, batch = step.objective(), step.batch(f"rank{rank()}/step0/")
    optimizer = optimizer_of(objective)
    losses = objective(batch, step.teacher_temperature)
    losses["total"].backward()
    gradients = {}
    for name, parameter in objective.student.named_parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world_size()
        gradients[name] = parameter.grad.clone()
    norms = clip_per_submodule(objective.student, CLIP_NORM)
    set_step_values(optimizer, step.values)
    optimizer.step()
    objective.update_teacher(step.values.momentum)
    means = torch.stack([loss.detach() for loss in losses.values()])
    dist.all_reduce(means)
    return {
        "losses": [dict(zip(losses, (means / world_size()).tolist(), strict=True))],
        "norms": [{k: v.item() for k, v in norms.items()}],
        "gradients": gradients,
        "state": state_of(objective),
    }


def global_batch_sinkhorn(golden: Path) -> Result:
    """The golden batch of four images divided over the ranks. KoLeo looks across ranks, as one process does."""
    step = load_golden(golden, "step_sinkhorn_separate_heads")
    return _steps(step.objective(koleo_across_ranks=True), step, [share_of(step.batch("step0/"))])


def evenly_masked(step: GoldenStep, i: int) -> Batch:
    """The golden batch of a centering step with four masked patches in every crop.

    The patch center is the mean of rank means: it equals the mean over all only when ranks mask equally many patches.
    """
    batch = step.batch(f"step{i}/")
    order = torch.rand(batch.masks.shape, generator=torch.Generator().manual_seed(i)).argsort(dim=1)
    return make_batch(batch.global_crops, batch.local_crops, order < 4)


def global_batch_centering(golden: Path) -> Result:
    """Two steps, so that the center of the first one matters."""
    step = load_golden(golden, "step_centering_shared_head_2steps")
    return _steps(step.objective(koleo_across_ranks=True), step, [share_of(evenly_masked(step, i)) for i in range(2)])


def rank_without_masks(golden: Path) -> Result:
    """One rank's batch has no masked patch; the others must not notice more than that."""
    results: Result = {}
    for name in ("step_sinkhorn_separate_heads", "step_centering_shared_head_2steps"):
        step = load_golden(golden, name)
        batch = step.batch("step0/")
        if rank() == 0:
            batch = make_batch(batch.global_crops, batch.local_crops, torch.zeros_like(batch.masks))
        results[name] = _steps(step.objective(), step, [batch])
    return results


def distilled_by_prototypes(golden: Path) -> Result:
    objective = objective_of(TeacherForm(LARGE, DINO, IBOT))
    return {name: loss.item() for name, loss in objective(share_of(batch_of(6)), TEMPERATURE).items()}


def distilled_by_features(golden: Path) -> Result:
    objective = objective_of(TeacherForm(LARGE))
    return {name: loss.item() for name, loss in objective(share_of(batch_of(6)), TEMPERATURE).items()}


def bf16_parameters(golden: Path) -> Result:
    step = load_golden(golden, "step_sinkhorn_2ranks")
    return _steps(step.objective(), step, [step.batch(f"rank{rank()}/step0/")], torch.bfloat16)


def gram_and_registers(golden: Path) -> Result:
    """The options beside the reference's parts, sharded."""
    step = load_golden(golden, "step_sinkhorn_2ranks")
    objective = step.objective(gram_weight=2.0)
    objective.anchor_backbone.load_state_dict(objective.teacher["backbone"].state_dict())
    return _steps(objective, step, [step.batch(f"rank{rank()}/step0/")])


def collapse(golden: Path) -> Result:
    step = load_golden(golden, "step_centering_shared_head_2steps")
    objective = step.objective()
    shard_objective(objective, make_mesh(ShardingConfig(), world_size(), world_size(), "cpu"))
    return collapse_metrics(objective, share_of(step.batch("step0/")), 0.07)


def collective_pieces(golden: Path) -> Result:
    """Single functions over ranks; the test repeats them on all rows in one process."""
    rows = torch.randn(4 * world_size(), 8, generator=torch.Generator().manual_seed(5))
    mine = rows[4 * rank() : 4 * rank() + 4].clone().requires_grad_()
    loss = koleo_loss(mine, across_ranks=True)
    loss.backward()
    gathered = mine.detach().clone().requires_grad_()
    (gather_rows(gathered) * torch.arange(4.0 * world_size())[:, None]).sum().backward()
    centering = Centering(8)
    centering(mine.detach()[: 2 + rank()], 0.1)  # ranks hold different numbers of rows
    return {
        "koleo": loss.item(),
        "koleo_gradient": mine.grad,
        "gather_gradient": gathered.grad,
        "sinkhorn": SinkhornKnopp()(mine.detach(), 0.1),
        "center": centering.center,
    }
