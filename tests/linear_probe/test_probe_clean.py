"""A head that was trained on cleaned pictures says so, and is shown such ones whoever uses it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from cleaned_pictures import recorded
from PIL import Image

from backbone import FeatureCache, FeatureKind
from backbone.networks import LAST, POOLINGS, find_network, reading_of
from linear_probe.features import Columns, features_of
from linear_probe.head_file import load_head, save_head
from linear_probe.head_run import HeadRun
from linear_probe.probe import Head
from linear_probe.samples import Sample
from linear_probe.tasks import Level, Task
from runtime.screen.clean import Cleaner

PIXELS = find_network("pixels")
WIDTH = 3 * 16 * 16


@pytest.mark.parametrize("clean", [False, True])
def test_training_and_use_see_the_same_pictures(clean: bool, tmp_path: Path) -> None:
    picture = recorded(1)
    Image.fromarray(picture).save(tmp_path / "a.png")
    sample = Sample("0", str(tmp_path / "a.png"), ("d",), (), ("a",), ())
    reading = reading_of(PIXELS, LAST, POOLINGS[0])
    trained_on = features_of(PIXELS, [sample], False, FeatureCache(tmp_path / "f"), 1, "cpu", reading, clean).features
    task = Task("t", "t", ("a",), (Level("", 0, 1),), True, np.arange(1), np.ones((1, 1), bool))
    head = Head("h", Columns("cls", 0, WIDTH), torch.zeros(WIDTH, 1), torch.zeros(1), 0.5, 0.5)
    save_head(tmp_path / "h.safetensors", head, task, PIXELS, FeatureKind(), clean)
    stored = load_head(tmp_path / "h.safetensors")
    assert stored.clean is clean
    run = HeadRun(stored, PIXELS, PIXELS.load(), torch.device("cpu"))
    torch.testing.assert_close(run.features(run.prepare([tmp_path / "a.png"])), trained_on)
    shown = Image.fromarray(Cleaner()(picture) if clean else picture)
    torch.testing.assert_close(run.prepare([tmp_path / "a.png"])[0], PIXELS.preprocessing(shown))
