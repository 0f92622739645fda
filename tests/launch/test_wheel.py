"""The built wheel is the whole product: it works in an empty folder, without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
pytestmark = pytest.mark.slow


# What the wheel may add to site-packages, beside its metadata.
IMPORT_NAMES = {"data_pipeline", "eval_knn", "launch", "panendofm", "pretrain"}
# Packages of others that carry names which our parts have, too.
NAMESAKES = ("records", "scoring")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    copy = folder / "source"  # the build leaves traces beside the sources
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    for name in filter(None, files):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():  # panendofm/configs
            (copy / name).symlink_to((ROOT / name).readlink())
        elif (ROOT / name).is_file():
            (copy / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run([*build, "--wheel-dir", folder, copy], check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


def site_packages(environment: Path) -> Path:
    return environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def install(environment: Path, *packages: str | Path) -> None:
    """Into an empty environment, without what the packages need."""
    venv.create(environment, with_pip=False)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site_packages(environment)]
    subprocess.run([*command, *packages], check=True, capture_output=True)


@pytest.fixture(scope="module")
def python(wheel: Path) -> Path:
    """An interpreter that has the wheel, two namesakes and the locked packages, but not the checkout."""
    environment = wheel.parent / "whole"
    install(environment, wheel, *NAMESAKES)
    # Named in a .pth file, the folder's own .pth files (the editable install of the checkout) are not read.
    (site_packages(environment) / "locked.pth").write_text(sysconfig.get_paths()["purelib"])
    return environment / "bin" / "python"


@pytest.fixture(scope="module")
def base_python(wheel: Path) -> Path:
    """An interpreter that has the wheel and its base dependencies alone, at the locked versions."""
    environment = wheel.parent / "base"
    venv.create(environment, with_pip=True)
    interpreter = environment / "bin" / "python"
    lock = ROOT / "requirements.lock"
    pip = [interpreter, "-m", "pip", "install", "--quiet", "-c", lock]
    (torch,) = (line for line in lock.read_text(encoding="utf-8").splitlines() if line.startswith("torch=="))
    # torch by itself: the build that fits this machine may be offered under its exact version only.
    subprocess.run([*pip, torch], check=True, capture_output=True)
    subprocess.run([*pip, wheel], check=True, capture_output=True)
    return interpreter


def run(python: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [python, *words], cwd=folder, env=clean, capture_output=True, text=True, timeout=1200, check=False
    )


def test_the_wheel_claims_five_import_names(wheel: Path, tmp_path: Path) -> None:
    install(tmp_path / "empty", wheel)
    added = {path.name for path in site_packages(tmp_path / "empty").iterdir()} - {"bin"}
    metadata = {name for name in added if name.endswith(".dist-info")}
    assert len(metadata) == 1
    assert added - metadata == IMPORT_NAMES


def test_everything_imports_beside_packages_of_the_same_names(python: Path, tmp_path: Path) -> None:
    code = f"""
import importlib, pkgutil
for name in {NAMESAKES!r}:
    assert "panendofm" not in importlib.util.find_spec(name).origin
count = 0
for package in {sorted(IMPORT_NAMES)!r}:
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        optional = module.name.endswith((".__main__", "with_torchcodec"))
        if not optional:
            importlib.import_module(module.name)
            count += 1
print(count)
"""
    done = run(python, tmp_path, "-c", "import importlib.util\n" + code)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 400


@pytest.mark.timeout(1200)
def test_base_dependencies_load_a_release_and_score_a_file(python: Path, base_python: Path, tmp_path: Path) -> None:
    for words in (
        ["backbone", "init", "vit_tiny_patch14", "out=start.safetensors"],
        ["export", "start.safetensors", "out=release", "formats=[hub]"],
    ):
        made = run(python, tmp_path, "-m", "panendofm", *words)
        assert made.returncode == 0, made.stderr
    code = "import panendofm, torch; loaded = panendofm.load_backbone('release'); "
    code += "print(*loaded.model.eval()(torch.zeros(1, 3, 56, 56)).cls.shape)"
    loaded = run(base_python, tmp_path, "-c", code)
    assert loaded.stdout.split() == ["1", "192"], loaded.stderr
    (tmp_path / "truth.csv").write_text("".join(f"{i}.jpg,{'ab'[i % 2]}\n" for i in range(20)))
    (tmp_path / "sub.csv").write_text("".join(f"{i}.jpg,{'ab'[i % 3 % 2]},0.5\n" for i in range(20)))
    words = ["challenge", "score", "sub.csv", "truth=truth.csv", "profile=medico2018", "out=scored"]
    scored = run(base_python, tmp_path, "-m", "panendofm", *words)
    assert scored.returncode == 0, scored.stderr
    assert (tmp_path / "scored" / "index.html").is_file()
    refused = run(base_python, tmp_path, "-m", "data_pipeline", "shard", "configs/corpora/synthetic.yaml", "out=shards")
    assert refused.returncode == 2
    (sentence,) = refused.stderr.splitlines()
    assert "pip install 'panendofm[data]'" in sentence and "Traceback" not in sentence


def test_the_wheel_brings_configs_and_data_files(python: Path, tmp_path: Path) -> None:
    code = "import panendofm; print(panendofm.__file__)"
    where = run(python, tmp_path, "-c", code).stdout
    assert not Path(where.strip()).is_relative_to(ROOT)
    plan = run(
        python, tmp_path, "-m", "launch", "plan", "configs/pretrain/panendofm_vitl14.yaml", "--images", "1000000"
    )
    assert plan.returncode == 0, plan.stderr
    assert "peak" in plan.stdout
    code = "import torch; from launch.doctor.attention import check_attention as check; "
    code += "print({row.status for row in check(torch.device('cpu'), 'sdpa')} <= {'pass', 'skip'})"
    assert run(python, tmp_path, "-c", code).stdout.strip() == "True"  # the golden files were found
    (tmp_path / "empty").mkdir()
    atlas = run(python, tmp_path, "-m", "panendofm", "atlas", "empty", "out=atlas.parquet")
    assert atlas.returncode == 2 and "Traceback" not in atlas.stderr  # the taxonomy and mappings were found


@pytest.mark.timeout(1500)
def test_the_wheel_alone_runs_the_demo(python: Path, tmp_path: Path) -> None:
    demo = run(python, tmp_path, "-m", "launch", "demo")
    assert demo.returncode == 0, demo.stdout[-2000:] + demo.stderr[-2000:]
    assert (tmp_path / "demo_output" / "run" / "report.html").is_file()
