"""The experiment on real weights: without its data it says so; its rules and halves are what they are called."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import save

from benchmarks.real_start.__main__ import main
from benchmarks.real_start.arms import BEFORE, FROM_RELEASED, GROUPS, RELEASED, STARTS, TARGET
from benchmarks.real_start.experiment import Experiment
from benchmarks.real_start.findings import tables_of, write_findings
from benchmarks.real_start.halves import halves, worth_of_rules
from benchmarks.real_start.masks import mask_rows, stage_networks
from benchmarks.real_start.release import _refuse_another, make_release
from benchmarks.warm_start.findings import rows_of
from launch.steps import Step
from panendofm.backbone import VisionTransformer, vit_config
from panendofm.records.evaluation import encode_ranks
from panendofm.records.run import EXIT_REQUEUE, RunFolder
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, write_json

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
            {"arm": arm, "seed": seed, "curves": recentred(curves, arm), "cpu_seconds": 60}
            for arm in group.arms
            for seed in group.seeds
        ]
    return results


def recentred(curves: dict[str, list[dict[str, Any]]], arm: str) -> dict[str, list[dict[str, Any]]]:
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
    columns, rows = tables["Recentring, and the warm start after it"]
    found = dict(zip(columns, rows[0], strict=True))
    assert found["recentring alone"].startswith("+") and found["training after it"].startswith("-")
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


def small_experiment(folder: Path) -> tuple[Experiment, VisionTransformer]:
    """With weights and the checksums of shards, and a labelled picture."""
    experiment = Experiment(folder, folder)
    network = VisionTransformer(vit_config("vit_tiny_patch14", depth=1, image_px=56))
    experiment.recentred.write_bytes(save(network.state_dict()))
    for shards in (experiment.shards, experiment.mixed):
        shards.path.mkdir()
        shards.checksums.write_text("a\n")
    (experiment.labelled / "polyps").mkdir(parents=True)
    (experiment.labelled / "polyps" / "1.jpg").write_bytes(b"a")
    return experiment, network


def test_a_run_that_was_asked_to_stop_has_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment, _ = small_experiment(tmp_path)
    monkeypatch.setattr("benchmarks.real_start.experiment.pretrain", lambda config: EXIT_REQUEUE)
    with pytest.raises(UserError, match="gram_0 was asked to stop; run the same command again"):
        experiment.run("parts", "gram", 0)
    assert not (tmp_path / "results" / "gram_0.json").exists()


def test_a_release_of_other_weights_or_pictures_is_not_taken_for_this_one(tmp_path: Path) -> None:
    experiment, network = small_experiment(tmp_path)
    judged = make_directory(tmp_path / "judged")
    for path in (experiment.run_folder(*RELEASED).best, *stage_networks(experiment)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(save(network.state_dict()))
    _refuse_another(experiment, judged)
    _refuse_another(experiment, judged)
    (experiment.labelled / "polyps" / "1.jpg").write_bytes(b"b")
    with pytest.raises(
        UserError, match=r"judged was made of other weights or pictures; remove it and .*panendofm-mini"
    ):
        _refuse_another(Experiment(tmp_path, tmp_path), judged)
    (experiment.labelled / "polyps" / "1.jpg").write_bytes(b"a")
    changed = {name: tensor + 1 for name, tensor in network.state_dict().items()}
    experiment.run_folder(*RELEASED).best.write_bytes(save(changed))
    with pytest.raises(UserError, match="other weights"):
        _refuse_another(Experiment(tmp_path, tmp_path), judged)


def test_an_export_that_outlived_its_command_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was made whole after the command had been killed, and would refuse to be made again."""
    place = tmp_path / "release"
    whole = place / "whole"
    export = Step("export", ("no_such_module",), place, whole)
    judge = Step("judge", ("platform",), tmp_path)
    monkeypatch.setattr("benchmarks.real_start.release.release_steps", lambda experiment: [export, judge])
    monkeypatch.setattr("benchmarks.real_start.release._refuse_another", lambda experiment, judged: None)
    experiment = Experiment(tmp_path, tmp_path)
    place.mkdir()
    with pytest.raises(UserError, match="'python -m no_such_module' ended with exit code 1"):
        make_release(experiment)
    (tmp_path / "judged" / "logs" / "1.unfinished").write_text("exported")
    whole.touch()
    (_, said), (_, judged) = make_release(experiment)
    assert said == "exported" and "Linux" in judged


def test_later_stages_wait_for_the_run_that_they_go_on_from(tmp_path: Path) -> None:
    experiment, network = small_experiment(tmp_path)
    best = experiment.run_folder(*RELEASED).best
    best.parent.mkdir(parents=True, exist_ok=True)
    best.write_bytes(save(network.state_dict()))
    with pytest.raises(UserError, match="high_resolution goes on from the best checkpoint of ours_0; run the group"):
        experiment.start_of("high_resolution")
    write_json(tmp_path / "results" / "ours_0.json", {})
    assert experiment.start_of("high_resolution") == best


def test_new_registers_are_compared_with_themselves_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with the weights that have none: those are what was before."""
    experiment, _ = small_experiment(tmp_path)
    monkeypatch.setattr(Experiment, "_without_registers", lambda self: self.recentred)
    monkeypatch.setattr("benchmarks.real_start.experiment.pretrain", lambda config: 0)
    monkeypatch.setattr("benchmarks.real_start.experiment.read_evaluations", lambda run: [])
    monkeypatch.setattr(Experiment, "_keep_ends", lambda self, arm, run: None)
    monkeypatch.setattr(Experiment, "_forget", lambda self, run: None)
    compared: list[tuple[str, Path]] = []

    def at_the_ends(self: Experiment, wanted: Any, begun: Path, run: RunFolder, crop_px: int) -> dict[str, Any]:
        compared.append(("step 0", begun))
        return {}

    def start_figures(self: Experiment, wanted: Any, start: Path, crop_px: int) -> dict[str, Any]:
        compared.append(("before", start))
        return {TARGET: {"top1": 0.5}}

    monkeypatch.setattr(Experiment, "at_the_ends", at_the_ends)
    monkeypatch.setattr(Experiment, "_start_figures", start_figures)
    experiment.run("stages", "new_registers", 0)
    first = experiment.run_folder("new_registers", 0).checkpoint(0)
    assert compared == [("step 0", first), ("before", experiment.recentred)]
    compared.clear()
    experiment.run("main", "ours", 0)
    assert compared == [("step 0", experiment.recentred), ("before", experiment.start)]


def test_another_layout_of_the_further_classes_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "hyperkvasir" / "polyps").mkdir(parents=True)
    (tmp_path / "hyperkvasir" / "polyps" / "1.jpg").touch()
    experiment = Experiment(tmp_path / "out", tmp_path)
    with pytest.raises(UserError, match=r"hyperkvasir has no pictures in HyperKvasir's own folders"):
        experiment._link_others()
    assert not experiment.others.exists()


def test_a_misspelt_group_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["real_start", str(tmp_path), "--groups", "main,stagse"])
    with pytest.raises(UserError, match="--groups stagse: there is no such group; choose of main, parts"):
        main()


def test_a_result_of_other_settings_is_not_taken_for_this_one(tmp_path: Path) -> None:
    experiment, network = small_experiment(tmp_path)
    own = GROUPS["parts"].arms["gram"].words
    digest = experiment._digest("gram", own, experiment.recentred, ())
    result = tmp_path / "results" / "gram_0.json"
    write_json(result, {"made_from": digest})
    assert experiment.run("parts", "gram", 0) == result
    experiment.shards.checksums.write_text("b\n")
    with pytest.raises(UserError, match=r"gram_0\.json was made with other settings, weights or pictures; remove it"):
        experiment.run("parts", "gram", 0)
    experiment.shards.checksums.write_text("a\n")
    experiment.recentred.write_bytes(save({name: tensor + 1 for name, tensor in network.state_dict().items()}))
    with pytest.raises(UserError, match="other settings"):
        experiment.run("parts", "gram", 0)


_COMMAND = """
import multiprocessing, os, sys, time
from concurrent.futures import ProcessPoolExecutor
from benchmarks.real_start.experiment import end_with_parent

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
