"""The doctor through a real Slurm, on two nodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from launch.doctor.command import load_doctor_config, run_doctor
from launch.jobs.cluster import ClusterConfig, Resources


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("slurm")
def test_two_nodes_pass(tmp_path: Path) -> None:
    config, is_own = load_doctor_config([f"run.dir={tmp_path / 'doctor'}"])
    environment = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    cluster = ClusterConfig(pretrain=Resources(nodes=2, tasks_per_node=1, time_minutes=10), environment=environment)
    assert run_doctor(config, cluster, is_own) == 0
    text = (tmp_path / "doctor" / "doctor.json").read_text()
    rows = {row["check"]: row for row in json.loads(text)["rows"]}
    assert not [row for row in rows.values() if row["status"] == "fail"]
    assert rows["locks over nodes"]["found"] == "one holder on 2 nodes"
    assert rows["sharding hsdp float32"]["status"] == rows["collectives"]["status"] == "pass"
    assert str(tmp_path) not in text


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("slurm")
def test_a_cluster_that_has_no_gpus_for_the_job(tmp_path: Path) -> None:
    """Asked for by the cluster file, and not to be seen in the job: a row, and exit code 1."""
    config, is_own = load_doctor_config([f"run.dir={tmp_path / 'doctor'}"])
    environment = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    resources = Resources(gpus_per_node=1, tasks_per_node=1, time_minutes=10)
    cluster = ClusterConfig(kind="local", pretrain=resources, environment=environment)
    assert run_doctor(config, cluster, is_own) == 1
    rows = {row["check"]: row for row in json.loads((tmp_path / "doctor" / "doctor.json").read_text())["rows"]}
    assert [name for name, row in rows.items() if row["status"] == "fail"] == ["device"]
    assert "gpus_per_node" in rows["device"]["remedy"]
