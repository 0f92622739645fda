"""What a run publishes names no person, no folder and no host: evaluations, probes, scores, release and report."""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from eval_knn.__main__ import STAGE as EVAL_KNN
from launch.report import write_report
from panendofm.backbone import vit_config
from panendofm.backbone.__main__ import STAGE as BACKBONE
from panendofm.challenge.__main__ import STAGE as CHALLENGE
from panendofm.linear_probe.__main__ import STAGE as LINEAR_PROBE
from panendofm.runtime.command_line import Stage, run_stage

sys.path.extend(str(Path(__file__).resolve().parent.parent / folder) for folder in ("data_pipeline", "backbone"))
from backbone_cases import random_model, save_checkpoint
from pipeline_runs import in_published

PLANTED = ("MUELLER_HANS", "19500101", "DR_SCHMIDT", "secret-project")
CLASSES = ("dyed-lifted-polyps", "esophagitis", "normal-pylorus", "polyps")


def write_images(root: Path) -> Path:
    for number, name in enumerate(CLASSES):
        for image in range(12):
            random = np.random.default_rng(100 * number + image)
            texture = random.integers(0, 110, (10, 10, 3)).astype(np.uint8)
            texture[..., number % 3] += 60
            path = root / name / f"MUELLER_HANS_19500101_{image}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(texture).resize((80, 72), Image.Resampling.BICUBIC).save(path)
    return root


def write_run(root: Path, data: Path) -> Path:
    """As a training leaves it behind, with the paths that its maker typed."""
    run = root / "runs" / "a"
    save_checkpoint(random_model(vit_config("vit_test", image_px=224)), run / "checkpoints" / "step_0000007", 7)
    settings = {
        "init": {"weights": str(root / "start.pth")},
        "data": {"shards": str(root / "shards"), "cache": {"fetch_command": f"cp {root}/{{name}} {{to}}"}},
        "monitor": {"evaluation": {"data": {"path": str(data)}}},
    }
    (run / "config.yaml").write_text(yaml.safe_dump(settings))
    (run / "metrics.jsonl").write_text("".join(f'{{"step": {step}, "total": 1.0, "lr": 0.1}}\n' for step in range(7)))
    return run


@pytest.fixture
def stage(capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    def run(of: Stage, *words: object) -> None:
        with pytest.raises(SystemExit) as end:
            run_stage(of, [str(word) for word in words])
        assert not end.value.code, capsys.readouterr().err

    return run


def test_published_files_hold_no_name_path_or_host(tmp_path: Path, stage: Callable[..., None]) -> None:
    root = tmp_path / "secret-project" / "DR_SCHMIDT"
    data = write_images(root / "kvasir-dataset-v2")
    run = write_run(root, data)
    small = ("bootstrap.replicates=20", "features.threads=1", "ks=[5,10]", "selection.metric=top1_k10")
    stage(EVAL_KNN, run, f"data.path={data}", f"cache={root / 'cache'}", "plots=true", *small)
    published = tmp_path / "published"
    stage(BACKBONE, "export", run, f"out={published / 'release'}", "formats=[hub]")
    stage(LINEAR_PROBE, "pixels", run, f"data={data}", f"out={published / 'probe'}")
    (root / "truth.csv").write_text("".join(f"p{i}.jpg,{'ab'[i % 2]}\n" for i in range(8)))
    (root / "sub.csv").write_text("".join(f"p{i}.jpg,a,0.5\n" for i in range(8)))
    told = (f"truth={root / 'truth.csv'}", f"out={published / 'score'}")
    stage(CHALLENGE, "score", root / "sub.csv", *told)
    shutil.copy(write_report(run), published)
    shutil.copytree(run / "eval", published / "eval", ignore=shutil.ignore_patterns(".*"))  # locks of this moment
    for own in ("log.txt", ".lock"):  # its maker's own, beside what is published
        (published / "probe" / own).unlink()
    assert {"release", "probe", "report.html"} < {path.name for path in published.iterdir()}
    host = socket.gethostname()  # two letters would be found in any compressed image
    forbidden = [*PLANTED, str(root), str(tmp_path), host if len(host) > 4 else f'"{host}"']
    # The tables that name images, for scoring, name them relative to their folder.
    tables = published / "probe" / "test"
    assert tables.is_dir() and in_published(tables, [str(root), str(tmp_path), "DR_SCHMIDT"]) == []
    shutil.rmtree(tables)
    assert in_published(published, forbidden) == []
