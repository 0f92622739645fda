"""The whole path on real images with a real ImageNet network: minutes, so it is a slow test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from panendofm.atlas.__main__ import STAGE as ATLAS
from panendofm.linear_probe.__main__ import STAGE as PROBE
from panendofm.runtime.command_line import run_stage


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_imagenet_network_on_real_images(
    real_images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tasks = ("task=gi-tree,bbps,stomach-landmark", "protocol=converged", "out=r")
    for words in (
        ("atlas", str(real_images), "out=atlas.parquet"),
        ("efficientnet-lite0", "pixels", *tasks, "bootstrap.replicates=200", "seeds=1"),
    ):
        with pytest.raises(SystemExit) as stop:
            run_stage(ATLAS, words[1:]) if words[0] == "atlas" else run_stage(PROBE, words)
        assert not stop.value.code, capsys.readouterr().out
    assert json.loads(Path("atlas.json").read_text())["info"]["unmapped"] == {}
    results = json.loads(Path("r/results.json").read_text())["results"]
    assert set(results) == {"gi-tree", "bbps", "stomach-landmark"}
    tree = results["gi-tree"]["efficientnet-lite0"]
    assert tree["levels"]["region"]["macro"] > 0.95
    assert tree["levels"]["category"]["macro"] > 0.85
    assert tree["levels"]["finding"]["macro"] > 0.9
    assert tree["auc"]["macro"] > results["gi-tree"]["pixels"]["auc"]["macro"]
