"""The experiment on real weights: without its data it says so; its rules and halves are what they are called."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
import torch
from safetensors.torch import load_file, save

from experiments.real_start.__main__ import main
from experiments.real_start.arms import BEFORE, FROM_RELEASED, GROUPS, RELEASED, STARTS, TARGET
from experiments.real_start.experiment import Experiment, run_in_process
from experiments.real_start.findings import tables_of, write_findings
from experiments.real_start.halves import halves, worth_of_rules
from experiments.real_start.masks import mask_rows, stage_networks
from experiments.real_start.release import make_release
from experiments.warm_start.findings import rows_of
from launch.steps import Step
from panendofm.backbone import VisionTransformer, load_backbone
from panendofm.backbone.weights.load import weights_checksum
from panendofm.records.evaluation import encode_ranks
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, read_json

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "pretrain"))
from engine_runs import write_shards

QUERIES = 400


def history(*chances: float, queries: int = QUERIES) -> list[dict[str, Any]]:
    """Evaluations in which each query is right with a chance, alone in its group; RankMe rises."""
    points = []
    for number, chance in enumerate(chances):
        ranks = (np.random.default_rng(number).random(queries) > chance).astype(np.int64)
        text = encode_ranks(ranks)
        points.append({
            "step": 20 * number,
            "top1": float(np.mean(ranks == 0)),
            "ranks": text,
            "ranks_by_k": {"5": text, "20": text},
            "groups": " ".join(map(str, range(queries))),
            "rankme": 32.0 + 20 * number,
        })  # fmt: skip
    return points


def worth(*runs: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    found = worth_of_rules([{"curves": {"target": run}} for run in runs])
    return {w.rule: (w.against_start.value, w.against_best) for w in found}


def test_a_falling_run_is_followed_down_by_rankme_and_not_by_our_rule() -> None:
    found = worth(history(0.77, 0.74, 0.71, 0.68))
    assert found["the rule of eval_knn"][0] > -2
    assert found["within noise, RankMe decides"][0] < -3
    assert found["always the last"][0] < -3 and found["always the start"][0] == 0


def test_a_rising_run_is_followed() -> None:
    found = worth(history(0.6, 0.7, 0.8))
    assert found["the rule of eval_knn"][0] > 15 and found["the rule of eval_knn"][1] > -1


def test_groups_lie_whole_in_one_half() -> None:
    groups = np.repeat(np.arange(40), 3)
    for half in halves(groups):
        assert len(np.unique(groups[half])) == 20
        assert not set(groups[half]) & set(groups[~half])


def test_every_way_is_a_valid_setting_and_has_its_row(tmp_path: Path) -> None:
    experiment = Experiment(tmp_path, tmp_path)
    for group in GROUPS.values():
        for arm in group.arms.values():
            assert experiment.config(list(arm.words)).run.dir == "none"
        results = [
            {"arm": arm, "seed": seed, "curves": {"target": history(0.7, 0.6, queries=20)}}
            for arm in group.arms
            for seed in group.seeds
        ]
        rows = rows_of(results, group.arms, "target")
        assert [row[0] for row in rows] == [arm.title for arm in group.arms.values()]


def fabricated() -> dict[str, list[dict[str, Any]]]:
    """Results of all groups as `Experiment.run` writes them; the recipe falls at its last evaluation."""
    results = {}
    for name, group in GROUPS.items():
        ends = {end: history(0.7, 0.6, queries=40) for end in group.ends}
        evaluations = (0.7, 0.7) if name == "parts" else (0.7, 0.7, 0.7, 0.2)
        curves = {TARGET: history(*evaluations, queries=40), **ends}
        results[name] = [
            {"arm": arm, "seed": seed, "curves": recentered(curves, arm), "cpu_seconds": 60}
            for arm in group.arms
            for seed in group.seeds
        ]
    return results


def recentered(curves: dict[str, list[dict[str, Any]]], arm: str) -> dict[str, list[dict[str, Any]]]:
    """With the released weights, which find hardly anything, before step 0."""
    if arm in FROM_RELEASED or arm in STARTS:
        return curves
    return {name: [history(0.1, queries=40)[0] | {BEFORE: True}, *points] for name, points in curves.items()}


def test_the_page_has_a_table_for_all_that_each_group_measured(tmp_path: Path) -> None:
    results = fabricated()
    page = write_findings(results, tmp_path).read_text()
    markdown = (tmp_path / "tables.md").read_text()
    for group in GROUPS.values():
        assert f"{group.title}: kNN top-1 on real endoscopy" in page
        assert (f"{group.title}: kNN top-1 on drawn patterns" in markdown) == ("source" in group.ends)
        assert all(arm.title in markdown for arm in group.arms.values())
    runs = sum(len(group.arms) * len(group.seeds) for group in GROUPS.values())
    assert f"over {runs} runs" in page


def test_a_part_is_compared_with_the_others_at_the_same_step() -> None:
    results = fabricated()
    few = {"main": [run for run in results["main"] if run["seed"] == 0], "parts": results["parts"][:2]}
    tables = {title: rows for title, _, rows in tables_of(few)}
    rows = {
        row[0]: row
        for title, own in tables.items()
        if "less one part" in title and "kNN top-1 on real" in title
        for row in own
    }
    recipe = GROUPS["main"].arms["recipe"].title
    assert float(rows[recipe][2]) > 0.5, "the recipe's fall came after the last step of the parts"
    ours = GROUPS["main"].arms["ours"].title
    assert not rows[ours][5] and all(row[5] for name, row in rows.items() if name != ours)


def test_what_recentring_gave_and_what_training_added_are_told_apart() -> None:
    tables = {title: (columns, rows) for title, columns, rows in tables_of(fabricated())}
    columns, rows = next(table for title, table in tables.items() if title.startswith("The ways: kNN top-1 on real"))
    row = next(row for row in rows if row[0] == GROUPS["main"].arms["ours"].title)
    found = dict(zip(columns, row, strict=True))
    assert found["against step 0"].startswith("-") and found["lowest against step 0"].startswith("-")
    assert found["against the weights before that"].startswith("+")
    columns, rows = tables["Recentering, and the warm start after it"]
    found = dict(zip(columns, rows[0], strict=True))
    assert found["recentering alone"].startswith("+") and found["training after it"].startswith("-")
    (rules,) = [rows for title, (_, rows) in tables.items() if title.startswith("Choosing a checkpoint")]
    assert float(rules[-1][1].split()[0]) < -20, (
        "the released weights are no checkpoint that could be chosen, nor the start"
    )


def test_without_its_data_it_is_skipped_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["real_start", str(tmp_path / "none"), str(tmp_path / "out")])
    main()
    said = capsys.readouterr().out
    assert "skipped:" in said and "kvasir8" in said and "make real-start DATA=" in said
    assert not (tmp_path / "out").exists()


def dense_results(ious: dict[str, float], pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """What `linear_probe dense` writes of these networks, each known to a hundredth."""
    return {
        "results": [
            {
                "network": name,
                "tests": {"set": {"segmentation": {"iou": {"value": v, "low": v - 0.01, "high": v + 0.01}}}},
            }
            for name, v in ious.items()
        ],
        "paired_tests": [
            {
                "a": a,
                "b": b,
                "difference": ious[a] - ious[b],
                "low": ious[a] - ious[b] - 0.02,
                "high": ious[a] - ious[b],
            }
            for a, b in pairs
        ],
    }


def test_masks_of_a_stage_are_compared_with_what_it_began_with(tmp_path: Path) -> None:
    ious = {"mini": 0.8, "high_resolution_ended": 0.83, "high_resolution_gram_ended": 0.7}
    ious |= {"new_registers_begun": 0.4, "new_registers_ended": 0.5}
    pairs = [("mini", "high_resolution_ended"), ("high_resolution_gram_ended", "mini")]
    dense = dense_results(ious, [*pairs, ("new_registers_begun", "new_registers_ended")])
    rows = mask_rows(Experiment(tmp_path, tmp_path), "mini", dense)
    assert [row[0] for row in rows] == [arm.title for arm in GROUPS["stages"].arms.values()]
    assert rows[0][1:] == ["0.800 (0.790–0.810)", "0.830 (0.820–0.840)", "+3.0 (+3.0 to +5.0)"]
    assert rows[1][3] == "-10.0 (-12.0 to -10.0)" and rows[2][3] == "+10.0 (+10.0 to +12.0)"
    page = write_findings(fabricated(), tmp_path, None, rows).read_text()
    assert "Later stages: masks of drawn polyps at 224 pixels" in page and "+10.0 (+10.0 to +12.0)" in page


# Keys that make every way a training of seconds.
TINY = (
    *("model.name=vit_tiny_patch14_reg4", "model.width=32", "model.attention_heads=2", "model.depth=1"),
    *("model.image_px=28", "model.drop_path=0", "model.layerscale_init=0.1"),
    *("batch.images=8", "batch.microgroup_images=8", "augment.global_px=28", "augment.local_px=14"),
    *("augment.local_crops=2", "schedule.total=4 steps", "schedule.warmup=1 steps", "run.stop_at=null"),
    *("schedule.freeze_last_layer=1 steps", "schedule.teacher_temperature_warmup=1 steps", "monitor.every_steps=2"),
    *("warm_start.heads=1 steps", "warm_start.ramp=1 steps", "log.every_steps=1"),
    *("objective.dino_head={prototypes: 16, bottleneck: 8, hidden: 16}",),
    *("objective.ibot_head={prototypes: 16, bottleneck: 8, hidden: 16}",),
)


def tiny_experiment(folder: Path) -> Experiment:
    """All that `prepare` makes, small: shards, images of all sets, and a network with registers."""
    data = folder / "data"
    experiment = Experiment(make_directory(folder / "out"), data, TINY)
    for shards in (experiment.shards, experiment.mixed):
        write_shards(shards.path, videos=8)
        shards.checksums.write_text("a\n")
    rng = np.random.default_rng(0)
    for place in (experiment.labeled, experiment.others, experiment.patterns):
        for number, name in enumerate(("polyps", "cecum")):
            make_directory(place / name)
            for image in range(8):
                pixels = rng.integers(60 * number, 120 + 60 * number, (40, 40, 3), np.uint8)
                (place / name / f"{image}.jpg").write_bytes(simplejpeg.encode_jpeg(pixels))
    torch.manual_seed(0)
    network = VisionTransformer(experiment.config([]).model.vit())
    make_directory(experiment.start.parent)
    experiment.start.write_bytes(save(network.state_dict()))
    network.norm.bias.data += 0.1
    experiment.recentered.write_bytes(save(network.state_dict()))
    return experiment


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """The warm start with seed 0, run for real; it was asked to stop once, and went on."""
    experiment = tiny_experiment(tmp_path_factory.mktemp("finished"))
    slow = Experiment(experiment.folder, experiment.data, (*TINY, "schedule.total=100000 steps"))
    run = experiment.run_folder("gram", 0)
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=run_in_process, args=(slow, "parts", "gram", 0))
    process.start()
    while not (run.metrics.is_file() and run.metrics.read_text()):
        assert process.is_alive(), (experiment.folder / "logs" / "gram_0.log").read_text()
        time.sleep(0.1)
    process.terminate()
    process.join(120)
    assert process.exitcode == 1, "the command ends with a sentence: run it again"
    assert not (experiment.folder / "results" / "gram_0.json").exists(), "a run that was asked to stop has no result"
    assert "stopped at step" in (experiment.folder / "logs" / "gram_0.log").read_text()
    experiment.run("main", "ours", 0)
    return experiment


def copy_of(experiment: Experiment, folder: Path) -> Experiment:
    shutil.copytree(experiment.folder.parent, folder, symlinks=True)
    return Experiment(folder / "out", folder / "data", experiment.words)


def measured_starts(experiment: Experiment) -> set[str]:
    """Digests of the networks that ends of runs were compared with."""
    return {path.name.split("_")[0] for path in (experiment.folder / "starts").iterdir()}


def digest(weights: Path) -> str:
    return load_backbone(weights).weights_sha256[:12]


def test_a_run_leaves_its_curves_and_what_is_gone_on_from(finished: Experiment) -> None:
    result = read_json(finished.folder / "results" / "ours_0.json")
    assert set(result["curves"]) == {TARGET, *GROUPS["main"].ends}
    for points in result["curves"].values():
        assert points[0][BEFORE] and not any(point.get(BEFORE) for point in points[1:])
    assert [point["step"] for point in result["curves"][TARGET]] == [0, 0, 2, 4]
    run = finished.run_folder("ours", 0)
    assert run.steps() == [int(run.best.resolve().name.removeprefix("step_"))]
    assert measured_starts(finished) == {digest(finished.start), digest(finished.recentered)}


def test_new_registers_are_compared_with_themselves_before_training(finished: Experiment, tmp_path: Path) -> None:
    """Not with the weights that have none: those are what was before."""
    experiment = copy_of(finished, tmp_path / "copy")
    before = measured_starts(experiment)
    experiment.run("stages", "new_registers", 0)
    begun, _ = experiment.stage_weights("new_registers")
    without = experiment.start_of("new_registers")
    assert "register_tokens" in load_file(begun) and "register_tokens" not in load_file(without)
    first = weights_checksum(experiment.config([]).model.vit(), load_file(begun))[:12]
    assert measured_starts(experiment) - before == {first, digest(without)}


def test_a_result_of_other_settings_is_not_taken_for_this_one(finished: Experiment, tmp_path: Path) -> None:
    experiment = copy_of(finished, tmp_path / "copy")
    result = experiment.folder / "results" / "ours_0.json"
    assert experiment.run("main", "ours", 0) == result
    refused = r"ours_0\.json was made with other settings, weights or images; remove it"
    with pytest.raises(UserError, match=refused):
        Experiment(experiment.folder, experiment.data, (*TINY, "schedule.base_lr=0.1")).run("main", "ours", 0)
    experiment.shards.checksums.write_text("b\n")
    with pytest.raises(UserError, match=refused):
        experiment.run("main", "ours", 0)
    experiment.shards.checksums.write_text("a\n")
    weights = {name: tensor + 1 for name, tensor in load_file(experiment.recentered).items()}
    experiment.recentered.write_bytes(save(weights))
    with pytest.raises(UserError, match=refused):
        experiment.run("main", "ours", 0)


def test_later_stages_wait_for_the_run_that_they_go_on_from(finished: Experiment, tmp_path: Path) -> None:
    experiment = copy_of(finished, tmp_path / "copy")
    assert experiment.start_of("high_resolution") == experiment.run_folder(*RELEASED).best.resolve()
    (experiment.folder / "results" / "ours_0.json").unlink()
    with pytest.raises(UserError, match="high_resolution goes on from the best checkpoint of ours_0; run the group"):
        experiment.start_of("high_resolution")


def with_stages(experiment: Experiment) -> Experiment:
    """Networks of all later stages are there."""
    for path in stage_networks(experiment):
        make_directory(path.parent)
        shutil.copyfile(experiment.recentered, path)
    return experiment


def test_a_release_of_other_weights_or_images_is_not_taken_for_this_one(finished: Experiment, tmp_path: Path) -> None:
    experiment = with_stages(copy_of(finished, tmp_path / "copy"))
    judge = [Step("judge", ("platform",), experiment.folder)]
    assert make_release(experiment, judge) == make_release(experiment, judge)
    image = experiment.labeled / "polyps" / "1.jpg"
    content = image.read_bytes()
    image.write_bytes(b"b")
    refused = r"judged was made of other weights or images; remove it and .*panendofm-mini"
    with pytest.raises(UserError, match=refused):
        make_release(Experiment(experiment.folder, experiment.data, TINY), judge)
    image.write_bytes(content)
    weights = {name: tensor + 1 for name, tensor in load_file(experiment.recentered).items()}
    stage_networks(experiment)[0].write_bytes(save(weights))
    with pytest.raises(UserError, match=refused):
        make_release(Experiment(experiment.folder, experiment.data, TINY), judge)


def test_an_export_that_outlived_its_command_is_taken_up(finished: Experiment, tmp_path: Path) -> None:
    """It was made whole after the command had been killed, and would refuse to be made again."""
    experiment = with_stages(copy_of(finished, tmp_path / "copy"))
    place = make_directory(tmp_path / "release")
    whole = place / "whole"
    steps = [Step("export", ("no_such_module",), place, whole), Step("judge", ("platform",), tmp_path)]
    with pytest.raises(UserError, match="'python -m no_such_module' ended with exit code 1"):
        make_release(experiment, steps)
    (experiment.folder / "judged" / "logs" / "1.unfinished").write_text("exported")
    whole.touch()
    (_, said), (_, judged) = make_release(experiment, steps)
    assert said == "exported" and "Linux" in judged


def test_another_layout_of_the_further_classes_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "hyperkvasir" / "polyps").mkdir(parents=True)
    (tmp_path / "hyperkvasir" / "polyps" / "1.jpg").touch()
    experiment = Experiment(tmp_path / "out", tmp_path)
    with pytest.raises(UserError, match=r"hyperkvasir has no images in HyperKvasir's own folders"):
        experiment.prepare()
    assert not experiment.others.exists()


def test_a_misspelt_group_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["real_start", str(tmp_path), "--groups", "main,stagse"])
    with pytest.raises(UserError, match="--groups stagse: there is no such group; choose of main, parts"):
        main()


_COMMAND = """
import multiprocessing, os, sys, time
from concurrent.futures import ProcessPoolExecutor
from experiments.real_start.experiment import end_with_parent

if __name__ == "__main__":
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), end_with_parent) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 600).result()
"""


def test_workers_end_when_the_command_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "command.py"
    script.write_text(_COMMAND)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, env=environment) as command:
        assert command.stdout is not None
        worker = int(command.stdout.readline())
        command.kill()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{worker}").exists() and "Z" not in Path(f"/proc/{worker}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline, "the worker goes on without its command"
        time.sleep(0.2)
