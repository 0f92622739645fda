"""The configs that are shipped, the world's variables, metrics, and what a run may change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from panendofm.records.metrics import MetricsFile, read_metrics
from panendofm.records.run import CheckpointInfo, RunFolder
from panendofm.runtime.config import config_to_yaml, load_config
from panendofm.runtime.errors import UserError
from pretrain.config import CheckpointConfig, PretrainConfig, changed_key
from pretrain.optimizer.warm_start import WarmSchedule
from pretrain.parallel.world import ProcessPlace, device_index, first_host, joined_world, place_of_process
from pretrain.run.checkpoints import CheckpointStore
from pretrain.run.retention import Retention
from pretrain.schedules import resolve_schedule, steps_of

CONFIGS = sorted((Path(__file__).parents[3] / "configs" / "pretrain").glob("*.yaml"))
REQUIRED = ["run.dir=runs/a", "data.shards=shards"]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_config_is_valid(path: Path, tmp_path: Path) -> None:
    config = load_config(PretrainConfig, path, REQUIRED)
    vit = config.model.vit()
    assert config.augment.global_px % vit.patch_px == config.augment.local_px % vit.patch_px == 0
    config.batch.microgroups_per_rank(1)
    schedule = resolve_schedule(config.schedule, config.batch.images, 10_000_000)
    assert schedule.total_steps > schedule.warmup_steps
    stored = tmp_path / "config.yaml"
    stored.write_text(config_to_yaml(config))
    assert load_config(PretrainConfig, stored) == config


@pytest.mark.parametrize(
    "word",
    [
        *("schedule.base_lr=.inf", "schedule.base_lr=.nan", "schedule.base_lr=-1", "schedule.momentum_end=7"),
        *("optimizer.beta2=1.5", "optimizer.clip_norm=.nan", "model.width=0", "model.attention_heads=0"),
        *("data.window_shards=0", "run.timeout_seconds=-1", "regression_guard.margin=.nan", "guard.margin=.nan"),
        *("checkpoint.every_steps=0", "health.max_skipped_steps=0", "augment.hue=9", "objective.koleo_weight=-1"),
        *(
            "objective.dino_head.prototypes=0",
            "masks.ratio_max=1",
            "data.sampling_weights={a: .inf}",
            "log.every_steps=0",
        ),
    ],
)
def test_values_out_of_their_range_are_refused(word: str) -> None:
    with pytest.raises(UserError, match=r"must be|must hold") as caught:
        load_config(PretrainConfig, CONFIGS[0], [*REQUIRED, word])
    assert "\n" not in str(caught.value)


def test_the_published_recipe_is_the_gentle_reading() -> None:
    path = next(path for path in CONFIGS if path.stem == "panendofm_vitl14")
    config = load_config(PretrainConfig, path, REQUIRED)
    schedule = resolve_schedule(config.schedule, 1024, 10_000_000)
    end = steps_of("run.stop_at", str(config.run.stop_at), 1024, 10_000_000)
    assert end == 19531
    assert schedule.at(end).lr == pytest.approx(3.9e-5, rel=0.01)
    assert config.model.vit().ffn == "mlp"
    assert config.batch.microgroups_per_rank(32) == 1
    assert config.monitor.early_stopping


def test_the_bold_recipe_reaches_its_peak_and_ends_with_its_run() -> None:
    path = next(path for path in CONFIGS if path.stem == "panendofm_vitl14_bold")
    config = load_config(PretrainConfig, path, REQUIRED)
    schedule = resolve_schedule(config.schedule, 1024, 10_000_000)
    end = steps_of("run.stop_at", str(config.run.stop_at), 1024, 10_000_000)
    assert schedule.total_steps == end == 19531
    warm = WarmSchedule(config.warm_start, schedule, 1024, 10_000_000)
    assert warm.at(1249).ramp.lr == 0  # the heads train alone
    peak = max(values.lr * values.ramp.lr for values in map(warm.at, range(0, end, 50)))
    assert peak == pytest.approx(2e-4, rel=0.03)
    assert warm.at(end - 1).lr < 1.1e-6
    assert config.regression_guard.is_on(config.starts_warm)
    assert not config.warm_start.anchored(config.objective).anchored


def test_what_a_resumed_run_may_change() -> None:
    before = load_config(PretrainConfig, None, REQUIRED)
    moved = ["run.dir=runs/b", "data.shards=elsewhere", "data.workers=1", "log.every_steps=3", "sharding.mode=hsdp"]
    assert changed_key(before, load_config(PretrainConfig, None, moved)) is None
    for change, name in (
        ("run.seed=1", "run.seed"),
        ("batch.microgroup_images=16", "batch.microgroup_images"),
        ("sharding.param_type=bfloat16", "sharding.param_type"),
        ("data.sampling_weights={ers: 2.0}", "data.sampling_weights"),
        ("objective.ibot_head.prototypes=9", "objective.ibot_head.prototypes"),
    ):
        key = changed_key(before, load_config(PretrainConfig, None, [*REQUIRED, change]))
        assert key is not None
        assert key.split()[0] == name


def test_what_can_be_switched_off_is_switched_off_by_a_word_that_yaml_reads_as_a_word() -> None:
    words = ["run.dir=a", "data.shards=b", "monitor.mode=none", "log.wandb=none", "warm_start.anchor=none"]
    config = load_config(PretrainConfig, None, words)
    assert (config.monitor.mode, config.log.wandb, config.warm_start.anchor) == ("none", "none", "none")


def test_microgroups_and_ranks_must_fit() -> None:
    with pytest.raises(UserError, match=r"batch\.images=100 does not divide into 1 parts of microgroups of 32"):
        load_config(PretrainConfig, None, [*REQUIRED, "batch.images=100"])
    with pytest.raises(UserError, match=r"run\.stop_at: '2' is not a duration"):
        load_config(PretrainConfig, None, [*REQUIRED, "run.stop_at='2'"])


def test_the_world_is_found_from_the_environment() -> None:
    assert place_of_process({}) == ProcessPlace(0, 1, 0, 1, None, None)
    torchrun = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    torchrun |= {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "1234"}
    assert place_of_process(torchrun) == ProcessPlace(5, 8, 1, 4, "10.0.0.1", 1234)
    # A batch script has the job's variables, but only srun makes a step with tasks.
    batch = {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    assert place_of_process(batch).size == 1
    step = {**batch, "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_ID": "0"}
    step |= {"SLURM_PROCID": "6", "SLURM_LOCALID": "2", "SLURM_STEP_NODELIST": "gpu[07-08]"}
    place = place_of_process(step)
    assert (place.rank, place.size, place.local_rank, place.local_size, place.address) == (6, 8, 2, 4, "gpu07")
    assert place.port == place_of_process({**step, "SLURM_PROCID": "0"}).port


def test_a_world_without_a_port_is_refused() -> None:
    with pytest.raises(UserError, match="WORLD_SIZE=4 is set, but MASTER_PORT is not; start the ranks with torchrun"):
        place_of_process({"RANK": "1", "WORLD_SIZE": "4"})


def test_the_gpu_of_a_rank() -> None:
    assert [device_index(rank, visible=4) for rank in range(4)] == [0, 1, 2, 3]
    assert [device_index(rank, visible=1) for rank in range(4)] == [0, 0, 0, 0]  # --gpus-per-task=1 shows one to each
    with pytest.raises(UserError, match="2 visible GPUs, but a rank with the local number 2"):
        device_index(2, visible=2)


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("n1", "n1"),
        ("n1,n2", "n1"),
        ("gpu[07-09,12],login1", "gpu07"),
        ("a[3,5]-ib", "a3-ib"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
def test_first_host(nodes: str, first: str) -> None:
    assert first_host(nodes) == first


def test_metrics_have_no_step_twice_after_a_resume(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    first = MetricsFile(path, 0)
    for step in range(5):
        first.append(step, {"total": float("nan") if step == 1 else step * 0.1})
    first.close()
    with path.open("a") as stream:
        stream.write('{"step": 5, "tot')  # torn by a kill
    second = MetricsFile(path, 3)
    second.append(3, {"total": 9.0})
    second.close()
    assert [line["step"] for line in read_metrics(path)] == [0, 1, 2, 3]
    assert [json.loads(line)["total"] for line in path.read_text().splitlines()] == [0.0, None, 0.2, 9.0]


def test_keys_of_before_are_read_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    earlier = ["data.weights={ers: 2.0}", "augment.solarise_probability=0.1", "augment.solarise_threshold=100"]
    config = load_config(PretrainConfig, None, [*REQUIRED, *earlier])
    assert config.data.sampling_weights == {"ers": 2.0}
    assert (config.augment.solarize_probability, config.augment.solarize_threshold) == (0.1, 100)
    said = capsys.readouterr().out
    assert "the key 'data.weights' is called 'data.sampling_weights' now" in said
    now = [*REQUIRED, "data.sampling_weights={ers: 2.0}", "augment.solarize_probability=0.1"]
    assert changed_key(config, load_config(PretrainConfig, None, [*now, "augment.solarize_threshold=100"])) is None


def test_a_checkpoint_whose_anchor_has_its_earlier_name_is_loaded(tmp_path: Path) -> None:
    run, config = RunFolder(tmp_path), CheckpointConfig(asynchronous=False)
    with joined_world("cpu", 60) as world:
        store = CheckpointStore(run, world, config, Retention(run, config))
        stored = {"gram_anchor.norm.bias": torch.arange(4.0), "student.backbone.norm.bias": torch.ones(4)}
        store.save(stored, CheckpointInfo(step=7, vit={}))
        state = {name: torch.zeros(4) for name in ("anchor_backbone.norm.bias", "student.backbone.norm.bias")}
        info = store.load_latest(state, {})
    assert info is not None and info.step == 7
    assert state["anchor_backbone.norm.bias"].tolist() == [0, 1, 2, 3]
    assert state["student.backbone.norm.bias"].tolist() == [1, 1, 1, 1]
