"""The scorer inside a bundle: our own sources, and the installed packages that they need."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import panendofm
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory

# What `challenge score` stands on; torch is not among it.
PARTS = ("atlas", "challenge", "imaging", "records", "reports", "runtime", "scoring")
REQUIRED = (
    *("jinja2", "lazy-loader", "numpy", "omegaconf", "opencv-python-headless", "pillow", "pydantic", "pyyaml", "rich"),
    *("scipy", "shapely", "simplejpeg", "xxhash"),
)
# Large, and never imported by a scorer.
_LEFT_OUT = re.compile(r"(^|/)(tests?|__pycache__|include)(/|$)|\.(pyc|pyi|a|lib)$|^\.\./")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def copy_sources(out: Path) -> None:
    """Of the library, as it runs here."""
    source = Path(panendofm.__file__).parent
    leave = shutil.ignore_patterns("__pycache__", "*.pyc")
    for path in source.iterdir():
        if path.is_file():
            make_directory(out / "panendofm")
            shutil.copyfile(path, out / "panendofm" / path.name)
        elif path.name in PARTS:
            shutil.copytree(path, out / "panendofm" / path.name, ignore=leave)


def copy_packages(out: Path) -> None:
    """The installed files of all packages."""
    for found in needed_distributions():
        for file in found.files or ():
            source = Path(str(found.locate_file(file)))
            if _LEFT_OUT.search(file.as_posix()) or not source.is_file():
                continue
            target = out / file.as_posix()
            make_directory(target.parent)
            shutil.copyfile(source, target)


def needed_distributions() -> list[Distribution]:
    """The required packages and all that these require."""
    found: dict[str, Distribution] = {}
    waiting = list(REQUIRED)
    while waiting:
        name = waiting.pop()
        key = name.lower().replace("_", "-")
        if key in found:
            continue
        own = _installed(name)
        if own is not None:
            found[key] = own
            waiting += _requirements(own)
        elif name in REQUIRED:
            raise UserError(f"the package {name} is not installed here, and the scorer needs it; install it.")
    return [found[name] for name in sorted(found)]


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _requirements(own: Distribution) -> Iterator[str]:
    """Names without extras; a requirement of another platform is not installed here, and so left out."""
    for line in own.requires or ():
        name = _NAME.match(line)
        if name is not None and "extra" not in line.partition(";")[2]:
            yield name[0]
