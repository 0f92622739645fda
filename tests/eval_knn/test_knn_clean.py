"""A score must not come from what stands beside the tissue: both ways of reading, and what lies between them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from cleaned_images import recorded
from PIL import Image

from eval_knn import EvalConfig, Evaluator
from eval_knn.__main__ import STAGE
from eval_knn.watch import watch
from panendofm.backbone import extract_features
from panendofm.backbone.embed import ImageList, embed
from panendofm.backbone.networks import LAST, POOLINGS, find_network, reading_of
from panendofm.imaging.frame_filters.clean import VERSION as CLEANING
from panendofm.imaging.frame_filters.clean import Cleaner
from panendofm.imaging.images import open_image
from panendofm.records.evaluation import evaluation_path, write_evaluation
from panendofm.records.run import RunFolder
from panendofm.runtime.command_line import run_stage
from pretrain.config import MonitorConfig


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of walls that nothing tells apart but the position box."""
    folder = tmp_path_factory.mktemp("boxes")
    for name, box in (("cecum", True), ("polyps", False)):
        (folder / name).mkdir()
        for number in range(6):
            image = recorded(100 + 2 * number + box, box=box)
            Image.fromarray(image).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests: text is looked for once."""
    return tmp_path_factory.mktemp("cache")


def test_the_command_gives_both_ways_and_the_difference(
    data: Path, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = [f"data.path={data}", f"cache={cache}", f"out={tmp_path / 'out'}", "bootstrap.samples=50"]
    keys += ["split.leave_one_group_out=true", "ks=[5,20]", "selection.metric=top1_k5", "selection.tie_breaks=[]"]
    with pytest.raises(SystemExit) as end:
        run_stage(STAGE, ["pixels", "data.clean=true", *keys])
    assert not end.value.code
    said = capsys.readouterr().out
    row = said[said.index("and as they came") :].splitlines()[2].split()
    cleaned, raw, difference = row[row.index("pixels") + 1 :][:3]
    assert float(raw) == 1.0, "the box tells the classes apart"
    assert float(cleaned) < 0.8, "without it there is little to go by"
    assert float(difference) == pytest.approx(float(cleaned) - float(raw), abs=2e-4)
    (document,) = (json.loads(path.read_text()) for path in (tmp_path / "out").glob("*.json"))
    assert document["data"]["clean"] is True and document["k"]["5"]["top1"] == pytest.approx(float(cleaned), abs=1e-4)
    kept = [json.loads(path.read_text()) for path in (cache / "features").glob("*.json")]
    assert sorted(entry.get("cleaning", "") for entry in kept) == ["", CLEANING], "features of both ways are kept apart"


def test_both_ways_are_read_by_the_features_that_were_chosen(
    data: Path, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = [f"data.path={data}", f"cache={cache}", f"out={tmp_path / 'out'}", "bootstrap.samples=5", "ks=[3]"]
    keys += ["selection.metric=top1_k3", "selection.tie_breaks=[]", "features.block=auto", "features.pooling=auto"]
    with pytest.raises(SystemExit) as end:
        run_stage(STAGE, ["untrained:vit_test", "data.clean=true", *keys])
    assert not end.value.code
    said = capsys.readouterr().out
    row = said[said.index("and as they came") :].splitlines()[2]
    (document,) = (json.loads(path.read_text()) for path in (tmp_path / "out").glob("*.json"))
    assert row.endswith(document["features"])

    config = EvalConfig(cache=str(cache), ks=[3])
    config.data.path, config.selection.metric, config.bootstrap.samples = str(data), "top1_k3", 5
    config.features.block = config.features.pooling = "auto"
    as_they_came, network = Evaluator(config), find_network("untrained:vit_test")
    own = as_they_came.score(network).document
    alike = as_they_came.score(network, document["features"]).document
    assert own.features != alike.features == document["features"], "left alone, these images choose otherwise"
    assert own.k["3"].top1 != alike.k["3"].top1
    assert row.split("untrained-vit_test")[1].split()[1] == f"{alike.k['3'].top1:.4f}"


def test_the_monitor_reads_images_as_training_does() -> None:
    assert MonitorConfig().evaluation.data.clean is True


@pytest.mark.parametrize("earlier", [None, False, True])
def test_a_watcher_reads_as_the_run_was_read_before(
    earlier: bool | None, data: Path, cache: Path, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path / "run")
    run.evaluations.mkdir(parents=True)
    config = EvalConfig(cache=str(cache), ks=[3])
    config.data.path, config.selection.metric, config.split.leave_one_group_out = str(data), "top1_k3", True
    config.bootstrap.replicates, config.watcher.idle_seconds = 5, 0
    if earlier is not None:
        config.data.clean = earlier
        document = Evaluator(config).score_model(find_network("pixels").load(), "step_0000001", 1).document
        write_evaluation(evaluation_path(run, "step_0000001"), document)
        config.data.clean = None
    watch(run.path, config)
    assert config.data.clean is (True if earlier is None else earlier)


def test_embed_reads_cleaned_images(data: Path, tmp_path: Path) -> None:
    network = find_network("pixels")
    images = ImageList([data / "cecum" / "0.png", data / "polyps" / "0.png"])
    embed(
        network,
        images,
        tmp_path / "f.parquet",
        reading_of(network, LAST, POOLINGS[0]),
        2,
        torch.device("cpu"),
        clean=True,
    )
    rows = np.array(pq.read_table(tmp_path / "f.parquet")["features"].to_pylist())
    cleaned_images = [
        Image.fromarray(Cleaner()(np.asarray(open_image(data / name / "0.png")))) for name in ("cecum", "polyps")
    ]
    expected = extract_features(network.load(), cleaned_images, network.preprocessing).numpy()
    np.testing.assert_allclose(rows, expected, atol=1e-6)
    assert pq.read_schema(tmp_path / "f.parquet").metadata[b"cleaned"] == CLEANING.encode()
