"""The documentation site: it builds strictly, tells what the code declares, and fetches nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from panendofm.__main__ import ENTRIES
from panendofm.runtime.config import keys_of
from pretrain import PretrainConfig

ROOT = Path(__file__).resolve().parents[2]


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_command_has_a_page_with_its_keys(site: Path) -> None:
    for name in ENTRIES:
        assert (site / "reference" / f"{name}.html").is_file(), name
    page = (site / "reference" / "pretrain.html").read_text(encoding="utf-8")
    missing = [key.name for key in keys_of(PretrainConfig) if f"<code>{key.name}</code>" not in page]
    assert not missing


def test_what_python_offers_is_described(site: Path) -> None:
    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert "Features of image files, folders of images or .tar shards." in page
    assert "def" not in re.findall(r'id="panendofm\.(\w+)"', page)
    assert {"load_backbone", "embed", "evaluate_knn"} <= set(re.findall(r'id="panendofm\.(\w+)"', page))


def test_results_of_experiments_are_pages(site: Path) -> None:
    page = (site / "results" / "adaptation.html").read_text(encoding="utf-8")
    assert 'href="adaptation-protocol.html"' in page, "a link of the README leads to the page of the protocol"


def test_pages_fetch_nothing(site: Path) -> None:
    fetching = re.compile(r"""<(?:script|link|img)[^>]+(?:src|href)=["']?https?://[^"' >]+""")
    found = {
        (page.name, match[0])
        for page in site.rglob("*.html")
        for match in fetching.finditer(page.read_text(encoding="utf-8"))
        if 'rel="canonical"' not in match[0]
    }
    assert not found


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[gone](no-such-page.md)", "no-such-page.md"),
        ("[gone](index.md#no-such-place)", "no-such-place"),
        ("[gone](../../no/such/file.py)", "no/such/file.py"),
    ],
)
def test_broken_links_are_noticed(tmp_path: Path, text: str, complaint: str) -> None:
    """In a small copy: the hooks, the settings, and one page."""
    shutil.copytree(ROOT / "docs" / "site", tmp_path / "docs" / "site", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "docs" / "index.md").write_text(f"# A page\n\n{text}\n", encoding="utf-8")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    settings = re.sub(r"^nav:.*", "nav: [index.md]\n", settings, flags=re.MULTILINE | re.DOTALL)
    settings = re.sub(
        r"^plugins:.*?(?=^markdown_extensions)", "plugins: []\n", settings, flags=re.MULTILINE | re.DOTALL
    )
    settings = re.sub(r"^hooks:.*", "hooks: []", settings, flags=re.MULTILINE)
    (tmp_path / "mkdocs.yml").write_text(settings, encoding="utf-8")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert complaint in done.stderr
