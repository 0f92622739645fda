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


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has the wheel and the locked packages, but not the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    copy = folder / "source"  # the build leaves traces beside the sources
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    for name in filter(None, files):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run([*build, "--wheel-dir", folder, copy], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=False)
    site = folder / "venv" / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel]
    subprocess.run(install, check=True, capture_output=True)
    # Named in a .pth file, the folder's own .pth files (the editable install of the checkout) are not read.
    (site / "locked.pth").write_text(sysconfig.get_paths()["purelib"])
    return folder / "venv" / "bin" / "python"


def run(python: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [python, *words], cwd=folder, env=clean, capture_output=True, text=True, timeout=1200, check=False
    )


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
    atlas = run(python, tmp_path, "-m", "panendofm", "atlas", "empty", "--out", "atlas.parquet")
    assert atlas.returncode == 2 and "Traceback" not in atlas.stderr  # the taxonomy and mappings were found


@pytest.mark.timeout(1500)
def test_the_wheel_alone_runs_the_demo(python: Path, tmp_path: Path) -> None:
    demo = run(python, tmp_path, "-m", "launch", "demo")
    assert demo.returncode == 0, demo.stdout[-2000:] + demo.stderr[-2000:]
    assert (tmp_path / "demo_output" / "run" / "report.html").is_file()
