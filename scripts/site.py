"""Hooks of mkdocs.yml: pages of the site that stand outside docs/, and the parts of the navigation that are folders.

The README is the first page. A link of a page to a file of the repository that the site does not have (an example, a
test) is shown as its name.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = {"README.md": "index.md", "VISION.md": "vision.md", "CHANGELOG.md": "changelog.md", "AGENTS.md": "agents.md"}
"""Pages at the root of the repository, and what the site calls them."""
FOLDERS = {"METRICS": "reference/metrics", "DESIGN": "design"}
"""What stands in the navigation for every page of a folder."""
_LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
_IMAGE = re.compile(r'(src|srcset)="docs/')


def on_config(config: Any) -> Any:
    """Put the pages of folders into the navigation."""
    docs = Path(config.docs_dir)
    config.nav = _filled(config.nav, {k: _pages(docs, folder) for k, folder in FOLDERS.items()})
    return config


def _filled(nav: Any, pages: dict[str, Any]) -> Any:
    if isinstance(nav, list):
        return [_filled(entry, pages) for entry in nav]
    if isinstance(nav, dict):
        return {title: _filled(entry, pages) for title, entry in nav.items()}
    return pages.get(nav, nav)


def _pages(docs: Path, folder: str) -> list[dict[str, str] | str]:
    """The pages of a folder by their titles, the one that lists them first."""
    index = docs / folder / "index.md"
    first = [index.relative_to(docs).as_posix()] if index.exists() else []
    return [
        *first,
        *({_title(p): p.relative_to(docs).as_posix()} for p in sorted((docs / folder).glob("*.md")) if p != index),
    ]


def _title(page: Path) -> str:
    return re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)[1]  # type: ignore[index]


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from outside docs/."""
    for source, name in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=_IMAGE.sub(r'\1="', text)))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Make links of the repository those of the site."""
    outside = {name: source for source, name in OUTSIDE.items()}
    source = Path(outside.get(page.file.src_uri, f"docs/{page.file.src_uri}"))

    def moved(link: re.Match[str]) -> str:
        target, place = link[1], link[2] or ""
        if "://" in target:
            return link[0]
        wanted = (ROOT / source.parent / target).resolve().relative_to(ROOT).as_posix()
        there = OUTSIDE.get(wanted, wanted.removeprefix("docs/"))
        if files.get_file_from_path(there) is None:
            return "](#not-on-the-site)" if (ROOT / wanted).exists() else link[0]
        up = "../" * page.file.src_uri.count("/")
        return f"]({up}{there}{place})"

    linked = _LINK.sub(moved, markdown)
    return re.sub(r"!?\[([^\]]*)\]\(#not-on-the-site\)", r"\1", linked)
