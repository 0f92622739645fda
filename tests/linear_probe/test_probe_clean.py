"""Cleaned images: both figures stand in the tables; a head says that it was trained so, and is shown such ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from cleaned_images import recorded
from PIL import Image

from panendofm.atlas.panendox.tasks import Level, Task
from panendofm.atlas.samples import Sample
from panendofm.backbone import FeatureCache, FeatureKind
from panendofm.backbone.networks import LAST, POOLINGS, find_network, reading_of
from panendofm.imaging.frame_filters.clean import Cleaner
from panendofm.linear_probe.__main__ import STAGE
from panendofm.linear_probe.features import Columns, features_of
from panendofm.linear_probe.heads.head_file import load_head, save_head
from panendofm.linear_probe.heads.head_run import HeadRun
from panendofm.linear_probe.heads.probe import Head
from panendofm.records.probe import ProbeFolder
from panendofm.runtime.command_line import run_stage

PIXELS = find_network("pixels")
WIDTH = 3 * 16 * 16


@pytest.mark.parametrize("clean", [False, True])
def test_training_and_use_see_the_same_images(clean: bool, tmp_path: Path) -> None:
    image = recorded(1)
    Image.fromarray(image).save(tmp_path / "a.png")
    sample = Sample("0", str(tmp_path / "a.png"), ("d",), (), ("a",), ())
    reading = reading_of(PIXELS, LAST, POOLINGS[0])
    trained_on = features_of(PIXELS, [sample], False, FeatureCache(tmp_path / "f"), 1, "cpu", reading, clean).features
    task = Task("t", "t", ("a",), (Level("", 0, 1),), True, np.arange(1), np.ones((1, 1), bool))
    head = Head("h", Columns("cls", 0, WIDTH), torch.zeros(WIDTH, 1), torch.zeros(1), 0.5, 0.5)
    save_head(tmp_path / "h.safetensors", head, task, PIXELS, FeatureKind(), clean)
    stored = load_head(tmp_path / "h.safetensors")
    assert stored.info.clean is clean
    run = HeadRun(stored, PIXELS, PIXELS.load(), torch.device("cpu"))
    torch.testing.assert_close(run.features(run.prepare([tmp_path / "a.png"])), trained_on)
    shown = Image.fromarray(Cleaner()(image) if clean else image)
    torch.testing.assert_close(run.prepare([tmp_path / "a.png"])[0], PIXELS.preprocessing(shown))


def test_the_tables_give_both_ways_and_the_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two classes of walls that nothing tells apart but the position box."""
    for name, box in (("cecum", True), ("polyps", False)):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(12):
            image = Image.fromarray(recorded(100 + 2 * number + box, box=box))
            image.save(tmp_path / "data" / name / f"{number}.png")
    out = tmp_path / "out"
    keys = ["clean=true", "bootstrap.replicates=100", "split.train=0.4", "split.validation=0.2", "split.test=0.4"]
    words = ["pixels", f"data={tmp_path / 'data'}", f"out={out}", "protocol=converged"]
    with pytest.raises(SystemExit) as end:
        run_stage(STAGE, [*words, *keys])
    assert not end.value.code
    figures = json.loads(ProbeFolder(out).results.read_text())["results"]["data"]["pixels"]
    raw, cleaned = figures["as_they_came"], figures["auc"]["macro"]
    assert raw["macro"] == 1.0, "the box tells the classes apart"
    assert cleaned < 0.95, "without it there is little to go by"
    assert raw["difference"] == pytest.approx(cleaned - raw["macro"])
    assert raw["difference_low"] <= raw["difference"] <= raw["difference_high"]
    row = f"{raw['difference']:+.3f}"
    for shown in (capsys.readouterr().out, ProbeFolder(out).table.read_text(), ProbeFolder(out).page.read_text()):
        assert "as they came" in shown and row in shown
