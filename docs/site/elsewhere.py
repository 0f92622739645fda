"""MkDocs hook: pages whose source stands elsewhere in the repository, and links that lead out of the docs.

An experiment's README, the changelog and the guide for contributors belong beside what they describe. The site shows
them all the same. A link to one of them leads to its page; a link to any other file of the repository becomes its name,
since a reader of the site may have no copy of the code.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).resolve().parents[2]
# The page on the site → its source.
SOURCES = {
    "results/adaptation.md": "experiments/adaptation/README.md",
    "results/adaptation-protocol.md": "experiments/adaptation/PROTOCOL.md",
    "results/distillation.md": "experiments/distillation/README.md",
    "results/distillation-protocol.md": "experiments/distillation/PROTOCOL.md",
    "results/warm-start.md": "experiments/warm_start/README.md",
    "history/changelog.md": "CHANGELOG.md",
    "history/contributing.md": "CONTRIBUTING.md",
}
_PAGES = {source: page for page, source in SOURCES.items()}
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)#:\s]+)(?P<anchor>#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for page, source in SOURCES.items():
        files.append(File.generated(config, page, abs_src_path=str(REPOSITORY / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    here = page.file.src_uri
    source = REPOSITORY / SOURCES.get(here, f"docs/{here}")

    def on_the_site(match: re.Match[str]) -> str:
        place = Path(os.path.normpath(source.parent / match["target"]))
        if not place.exists():
            return match[0]  # a broken link: MkDocs says so
        inside = place.relative_to(REPOSITORY).as_posix()
        target = _PAGES.get(inside, inside.removeprefix("docs/") if inside.startswith("docs/") else None)
        if target is None:
            return f"`{inside}`" if match["text"].strip("`") in inside else f"{match['text']} (`{inside}`)"
        relative = os.path.relpath(target, Path(here).parent)
        return f"{match['image']}[{match['text']}]({relative}{match['anchor'] or ''})"

    return _LINK.sub(on_the_site, markdown)
