"""Finished sets: readable by others, verified, the same bytes however they were made."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest
import simplejpeg
import webdataset
from pipeline_runs import FinishedRun, checksums_of, config_for

from data_pipeline import report, shard, verify
from data_pipeline.output.merge_parts import FrameRows
from data_pipeline.output.shuffle import plan_shuffle
from data_pipeline.output.tars import shards_for
from panendofm.runtime.files import failed_checksums

SMALL = ("ers",)


@pytest.fixture(scope="module")
def small_run(synthetic_corpus: Path, tmp_path_factory: pytest.TempPathFactory, ray_cluster: None) -> Path:
    """One corpus, two tasks at a time: what the other runs are compared with."""
    config = config_for(synthetic_corpus, tmp_path_factory.mktemp("small") / "shards", "shards.size_mb=1", only=SMALL)
    return shard(config).out


def test_shards_open_with_webdataset(finished_run: FinishedRun) -> None:
    shards = sorted(str(path) for path in finished_run.out.glob("*.tar"))
    rows = {row["key"]: row for row in finished_run.frames}
    seen = 0
    for sample in webdataset.WebDataset(shards, shardshuffle=False, empty_check=False):
        record, row = json.loads(sample["json"]), rows[sample["__key__"]]
        assert record["key"] == sample["__key__"] and record["source"] == row["source"]
        image = cv2.imdecode(np.frombuffer(sample["jpg"], np.uint8), cv2.IMREAD_COLOR)
        assert image.shape == (record["height"], record["width"], 3)
        seen += 1
    assert seen == len(rows) > 300


def test_shards_open_with_tar_and_carry_no_time_or_owner(finished_run: FinishedRun) -> None:
    path = finished_run.out / "shard-000000.tar"
    listing = subprocess.run(["tar", "-tvf", path], check=True, capture_output=True, text=True).stdout.splitlines()
    index = json.loads((finished_run.out / "shard-000000.index.json").read_text())["samples"]
    assert len(listing) == 2 * len(index)
    assert all("1970-01-01" in line and "0/0" in line for line in listing)


def test_index_gives_every_sample_without_reading_the_tar(finished_run: FinishedRun) -> None:
    index = json.loads((finished_run.out / "shard-000001.index.json").read_text())
    content = (finished_run.out / index["shard"]).read_bytes()
    for key, jpg, jpg_bytes, record, record_bytes in index["samples"]:
        assert simplejpeg.is_jpeg(content[jpg : jpg + jpg_bytes])
        assert json.loads(content[record : record + record_bytes])["key"] == key


def test_images_carry_no_metadata_and_fit_the_size(finished_run: FinishedRun) -> None:
    for row in finished_run.frames:
        assert max(row["width"], row["height"]) <= 512
    content = b"".join(path.read_bytes() for path in finished_run.out.glob("*.tar"))
    for trace in (b"Exif", b"ldpolypvideo/", b"adenoma", b".mp4", b".png", str(finished_run.config.data_root).encode()):
        assert trace not in content, trace


def test_names_of_patients_and_files_are_nowhere_in_the_output(finished_run: FinishedRun) -> None:
    manifest = (finished_run.out / "manifest.json").read_text() + str(finished_run.frames[:50])
    for name in ("adenoma_01", "seq_01", "s001", "/samples/"):
        assert name not in manifest
    patients = {row["patient"] for row in finished_run.frames if row["corpus"] == "ers"}
    assert len(patients) == 3 and all(len(patient) == 20 for patient in patients)


def test_every_shard_is_a_fair_sample(finished_run: FinishedRun) -> None:
    shards: dict[int, list[str]] = {}
    for row in finished_run.frames:
        shards.setdefault(row["shard"], []).append(row["corpus"])
    assert len(shards) >= 2
    sizes = [len(corpora) for corpora in shards.values()]
    assert max(sizes) - min(sizes) <= 1
    for corpora in shards.values():
        assert set(corpora) == {row["corpus"] for row in finished_run.frames}


def test_frames_are_cut_by_key_into_equal_shards() -> None:
    keys = np.array([f"{(7919 * i) % 1000:04d}" for i in range(100)], "S20")
    sizes, numbers = np.full(100, 3000), np.arange(100, dtype=np.int32)
    rows = FrameRows(keys, sizes, np.zeros(100, np.int32), numbers)
    assert shards_for(100, int(sizes.sum()), 100_000.0) == 5
    plan = plan_shuffle(rows, [Path("part")], 5, run_bytes=120_000)
    assert [[len(piece.rows) for piece in run] for run in plan.runs] == [[40], [40], [20]]
    assert plan.stretches[:, -1].tolist() == [40, 40, 20]
    assert np.diff(plan.stretches, axis=1).sum(axis=0).tolist() == [20] * 5
    for number, run in enumerate(plan.runs):  # a shard's stretch of a run holds the keys of its fifth
        sorted_keys = np.sort(keys[run[0].rows])
        edges = np.searchsorted(sorted_keys, np.sort(keys)[::20])
        assert plan.stretches[number, :-1].tolist() == edges.tolist()


def test_certificate_says_what_was_checked(finished_run: FinishedRun) -> None:
    certificate = json.loads((finished_run.out / "manifest.json").read_text())["leakage"]
    (guarded,) = certificate["guarded_sets"]
    assert (guarded["name"], guarded["images"], guarded["unreadable"]) == ("kvasir-dataset-v2", 320, 0)
    assert guarded["frames_dropped"] == certificate["frames_dropped"] >= 10
    assert {"part": "ers", "of": "ers", "what": "the same dataset"} in certificate["known_overlaps"]
    pairs = [row for row in pq.read_table(finished_run.out / "examples.parquet").to_pylist() if row["beside"]]
    assert pairs and all(row["reason"] == "evaluation_image" for row in pairs)


def test_report_stands_alone(finished_run: FinishedRun) -> None:
    text = report(finished_run.config).read_text()
    assert "http" not in text and 'src="data:image/jpeg' in text
    assert all(address.startswith("data:") for address in re.findall(r"""(?:src|href)=["']([^"']*)""", text))
    for section in ("Corpora", "Dropped frames", "Kept frames", "Text", "Leakage"):
        assert f"<h2>{section}</h2>" in text
    dropped = json.loads((finished_run.out / "manifest.json").read_text())["corpora"]["ldpolypvideo"]["dropped"]
    assert dropped["evaluation_image"] > 0 and f">{dropped['evaluation_image']}<" in text


def test_verify_passes_and_finds_each_kind_of_damage(small_run: Path, synthetic_corpus: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(small_run, copy)
    config = config_for(synthetic_corpus, copy, only=SMALL)
    assert verify(config).faults == []
    tar, index = copy / "shard-000000.tar", copy / "shard-000000.index.json"
    samples = json.loads(index.read_text())["samples"]
    whole = tar.read_bytes()
    middle = samples[0][1] + samples[0][2] // 2
    tar.write_bytes(whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :])
    faults = " ".join(verify(config).faults)
    assert "shard-000000.tar: missing or changed" in faults and f"{samples[0][0]} has other bytes" in faults
    tar.write_bytes(whole)
    content = json.loads(index.read_text())
    content["samples"][1][1] += 512
    index.write_text(json.dumps(content))
    assert any("the index is wrong" in fault for fault in verify(config).faults)
    tar.unlink()
    assert any("in no shard" in fault for fault in verify(config).faults)


def test_finished_run_does_nothing_and_other_settings_do_not_overwrite(
    small_run: Path, synthetic_corpus: Path, tmp_path: Path
) -> None:
    before = checksums_of(small_run)
    times = {path.name: path.stat().st_mtime_ns for path in small_run.iterdir()}
    config = config_for(synthetic_corpus, small_run, "shards.size_mb=1", only=SMALL)
    assert shard(config).did_nothing
    assert {path.name: path.stat().st_mtime_ns for path in small_run.iterdir()} == times
    from panendofm.runtime.errors import UserError

    with pytest.raises(UserError, match="finished set made from other files or settings"):
        shard(config_for(synthetic_corpus, small_run, "shards.jpeg_quality=50", only=SMALL))
    with pytest.raises(UserError, match="or with another key"):
        shard(config_for(synthetic_corpus, small_run, f"identity.private_dir={tmp_path}", only=SMALL))
    assert checksums_of(small_run) == before and failed_checksums(small_run) == []


@pytest.mark.parametrize("workers", [1, 4])
def test_number_of_workers_does_not_change_a_byte(
    workers: int, small_run: Path, synthetic_corpus: Path, tmp_path: Path
) -> None:
    config = config_for(synthetic_corpus, tmp_path / "shards", "shards.size_mb=1", f"ray.workers={workers}", only=SMALL)
    assert checksums_of(shard(config).out) == checksums_of(small_run)


def test_a_killed_worker_does_not_change_a_byte(small_run: Path, synthetic_corpus: Path, tmp_path: Path) -> None:
    config = config_for(synthetic_corpus, tmp_path / "shards", "shards.size_mb=1", "ray.workers=1", only=SMALL)
    killed: list[int] = []
    ended = threading.Event()

    def kill_one() -> None:
        while not ended.is_set() and not killed:
            for pid in _own_workers("ray::process_unit"):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                return
            time.sleep(0.02)

    thread = threading.Thread(target=kill_one)
    thread.start()
    try:
        out = shard(config).out
    finally:
        ended.set()
        thread.join()
    assert killed, "the run ended before a worker could be killed"
    assert checksums_of(out) == checksums_of(small_run)


def _own_workers(title: str) -> list[int]:
    """Processes of this test's Ray that carry this title just now."""
    import ray

    session = ray._private.worker._global_node.get_session_dir_path()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name = (entry / "cmdline").read_bytes().decode(errors="replace")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if name.startswith(title) and session in Path(f"/proc/{parent}/cmdline").read_text():
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue  # it ended while we looked
    return found
