"""The commands from end to end on video with a planted imbalance: what training sees of each scene."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from panendofm.records.curation import CurationFolder, read_curation
from panendofm.records.shards import PrivateFolder, ShardFolder
from panendofm.synthetic.imbalanced import DULL, RARE, plan_imbalanced
from panendofm.synthetic.truth import read_truth

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "corpora" / "imbalanced.yaml"


def command(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "data_pipeline", *(str(word) for word in words)], check=True)


def scenes_of(corpus: Path, shards: Path) -> dict[str, str]:
    """The scene that the truth says each frame of the shards is of."""
    truth = {source.path: source for source in read_truth(corpus).sources}
    private = PrivateFolder(shards.with_name(shards.name + "-private"))
    paths = {row["source"]: f"{row['corpus']}/{row['path']}" for row in pq.read_table(private.sources).to_pylist()}
    scenes = {}
    for row in pq.read_table(ShardFolder(shards).frames, columns=["key", "source", "frame"]).to_pylist():
        spans = truth[paths[row["source"]]].scenes
        scenes[row["key"]] = next(span.what for span in spans if span.first <= row["frame"] <= span.last)
    return scenes


def test_one_scene_is_planned_a_hundred_times_as_often_as_each_of_five() -> None:
    frames = {span.what: span.last - span.first + 1 for plan in plan_imbalanced() for span in plan.scenes}
    assert set(frames) == {DULL, *RARE} and len(RARE) == 5
    assert {frames[DULL] / frames[rare] for rare in RARE} == {100.0}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_weights_lift_every_rare_scene_of_real_video_to_within_twice_of_an_equal_share(tmp_path: Path) -> None:
    corpus, shards = tmp_path / "corpus", tmp_path / "shards"
    command("synthesize", corpus, "size=imbalanced")
    imbalance = read_truth(corpus).imbalance
    assert imbalance is not None
    assert (imbalance.dull, imbalance.rare) == (DULL, RARE)
    guard = f"leakage.guard=[{corpus / 'kvasir-dataset-v2'}]"
    command("shard", CONFIG, f"data_root={corpus}", guard, f"out={shards}", "ray.workers=2")
    out = CurationFolder(tmp_path / "curation")
    command("curate", shards, "network=efficientnet-lite0", f"out={out.path}", "ray.workers=2")
    scenes, table = scenes_of(corpus, shards), read_curation(out.table)
    names = np.array([scenes[key] for key in table.column("key").to_pylist()])
    weights = table.column("weight").to_numpy()
    assert np.count_nonzero(names == DULL) > 75 * max(np.count_nonzero(names == rare) for rare in RARE)
    shares = {name: weights[names == name].sum() / weights.sum() for name in imbalance.frames}
    assert all(1 / 12 <= shares[rare] <= 2 / 6 for rare in RARE), shares
