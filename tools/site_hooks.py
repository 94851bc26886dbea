"""Hooks of the documentation site: files outside docs/ that its pages link to.

The links of a page are those of the repository, so that they work on a forge, too. The site takes
each file that they name: `docs/dgx.md` as `dgx.md`, all others under their own path. It does not
link to folders. References are made here from the code, and are in no file: two pages, and a part
of two others.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY))  # the program `mkdocs` looks beside itself only

from tools import command_reference, config_reference, json_reference, metrics_reference  # noqa: E402

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

DOCS = "docs/"
OVERVIEW = "overview.md"
"""README.md in the site, whose own first page is docs/index.md."""
SEARCH = {
    "commands.md": {"boost": 4},
    "configuration.md": {"boost": 4},
    "job-file.md": {"boost": 4},
    "CHANGELOG.md": {"exclude": True},
}
"""Pages that the search shows first, and those that it leaves out."""

MADE: Mapping[str, Callable[[], str]] = {
    "docs/commands.md": command_reference.reference,
    "docs/json.md": lambda: json_reference.reference().page(),
    "radrm/radrm.schema.json": json_reference.schema_text,
}
"""Pages that are made from the code."""
PARTS: Mapping[str, tuple[str, Callable[[], str]]] = {
    "docs/configuration.md": ("<!-- reference -->", config_reference.reference),
    "docs/prometheus.md": ("<!-- metrics -->", metrics_reference.reference),
}
"""What takes the place of a mark in a page, with the line behind it that says so."""

_FILE = re.compile(r"^(```\w+) file=(\S+)$", re.MULTILINE)
_LINK = re.compile(r"(\]\(|^\[[^]]+\]: +)([^)#\s:]+)(?=[#)\s])", re.MULTILINE)


def place(path: str) -> str:
    """The path in the site of a file of the repository."""
    return OVERVIEW if path == "README.md" else path.removeprefix(DOCS)


def source(place: str) -> str:
    """The path in the repository of a page of the site."""
    if place == OVERVIEW:
        return "README.md"
    own = DOCS + place
    return own if own in MADE or (REPOSITORY / own).is_file() else place


def text_of(path: str) -> str:
    """The text of a page of the repository, with what is made from the code."""
    if path in MADE:
        return MADE[path]()
    text = (REPOSITORY / path).read_text("utf-8")
    if path in PARTS:
        mark, made = PARTS[path]
        before, found, after = text.partition(f"{mark}\n\n")
        if not found:
            raise LookupError(f"{path} has no line {mark}")
        text = before + made() + "\n" + after[after.index("\n") :]
    return text


def target(page: str, link: str) -> str | None:
    """The file of the repository that a link of a page names. None: none of its files."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    inside = path in MADE or (not path.startswith("..") and (REPOSITORY / path).is_file())
    return path if inside else None


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add README.md, the files outside docs/ that pages name, and those that these name."""
    for path, made in MADE.items():
        files.append(File.generated(config, place(path), content=made()))
    waiting = ["README.md", *(source(file.src_uri) for file in files.documentation_pages())]
    while waiting:
        path = waiting.pop()
        if not files.get_file_from_path(place(path)):
            absolute = str(REPOSITORY / path)
            files.append(File.generated(config, place(path), abs_src_path=absolute))
        if not path.endswith(".md"):
            continue
        for _, link in _LINK.findall(text_of(path)):
            named = target(path, link)
            if named is not None and not files.get_file_from_path(place(named)):
                waiting.append(named)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point the links of a page to where the site has the files, and show the names of files that
    the reader writes."""
    here = page.file.src_uri
    own = source(here)
    page.meta["search"] = SEARCH.get(here, {})
    if own in PARTS:
        markdown = text_of(own)

    def moved(found: re.Match[str]) -> str:
        path = target(own, found[2])
        if path is None:
            return found[0]
        return found[1] + posixpath.relpath(place(path), posixpath.dirname(here) or ".")

    return _LINK.sub(moved, _FILE.sub(r'\1 title="\2"', markdown))
