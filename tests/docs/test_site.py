"""The documentation site: built without warnings, loads nothing from elsewhere, finds all.

It is built at night; on a push CI has `make site`, for which any warning is an error.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from radrm.cli.settings import RULE_TABLES, core_settings, registry_of, rule_settings
from radrm.jobfile.options import SHOWN
from radrm.wiring import registry
from tests.paths import REPOSITORY
from tools.declared import commands
from tools.manual import settings_keys
from tools.site_hooks import text_of

pytestmark = pytest.mark.skipif(
    find_spec("material") is None, reason="needs mkdocs-material: pip install -e '.[dev]'"
)
METRIC = re.compile(r"\bradrm_[a-z_]+[a-z]\b")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    return folder


class Loads(HTMLParser):
    """What a page loads when it is opened, and the elements in it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        names = ["src", "srcset", "data", "poster"]
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev", "edit"):
            names.append("href")
        self.found += [given[name] or "" for name in names if name in given]


ELSEWHERE = re.compile(r"(?:[a-z]+:)?//")


@pytest.mark.nightly
def test_no_page_loads_anything_from_another_server(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        loads = Loads()
        text = page.read_text("utf-8")
        loads.feed(text)
        assert loads.found
        wrong = [each for each in loads.found if ELSEWHERE.match(each)]
        assert not wrong, f"{page.relative_to(site)}: {wrong}"
        assert 'class="mermaid"' not in text, "the theme would load what draws it from elsewhere"
    for style in site.rglob("*.css"):
        wrong = re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^)\"']+)", style.read_text())
        assert not wrong, f"{style.name}: {wrong}"


@pytest.mark.nightly
def test_every_page_has_what_a_forge_shows(site: Path) -> None:
    """The two readers of Markdown differ in lists and fences: what one of them takes for a
    paragraph is lost for its readers."""
    markdown = MarkdownIt("commonmark").enable("table")
    for source in sorted((REPOSITORY / "docs").rglob("*.md")):
        path = source.relative_to(REPOSITORY).as_posix()
        name = source.relative_to(REPOSITORY / "docs").with_suffix(".html").as_posix()
        text = (site / name.replace("README.html", "index.html")).read_text("utf-8")
        article = text[text.index("<article") : text.index("</article>")]
        forge = markdown.render(text_of(path))
        for tag in ("li", "pre", "tr", "h2", "h3"):
            seen, meant = (len(re.findall(f"<{tag}[ >]", html)) for html in (article, forge))
            assert seen == meant, f"{name}: {seen} of {meant} <{tag}>"


# ------------------------------------------------------------------ the search


def words(site: Path) -> set[str]:
    """All words of the search's index, parted as the search parts them."""
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    # Python has no look-behind of any length: hyphens of options stay in any case.
    separator = index["config"]["separator"].replace(r"(?<!--[a-z][\w-]*|\\)-|", "")
    assert separator != index["config"]["separator"]
    text = " ".join(f"{each['title']} {each['text']}" for each in index["docs"])
    return set(re.split(separator, re.sub(r"<[^>]+>", " ", text)))


@pytest.mark.nightly
def test_the_search_finds_all_that_one_may_type(site: Path) -> None:
    known = words(site)
    options = {f"--{option.name}" for option in SHOWN}
    options |= {flag for each in commands() for row in each.parameters for flag in row.flags}
    assert len(options) > 140
    assert not {option for option in options if len(option) > 2} - known
    names = {word for each in commands() for word in each.name.split()}
    names |= {word for key in settings_keys() for word in key.split(".")}
    rules = ((table, name) for table in RULE_TABLES for name in registry(registry_of(table)))
    names |= {key for table, name in rules for key in (name, *rule_settings(table, name))}
    names |= set(core_settings())
    assert len(names) > 150
    assert not {word for name in names for word in name.split("-")} - known
    metrics = REPOSITORY / "radrm" / "metrics"
    told = {name for file in metrics.glob("*.py") for name in METRIC.findall(file.read_text())}
    assert not told - known


@pytest.mark.nightly
def test_the_words_are_parted_as_the_page_says(site: Path) -> None:
    known = words(site)
    assert {"--gpu-memory", "max_demand", "policies", "packing"} <= known
    assert not {"--gpu-mem", "--no-such-option", "policies.packing.max_demand"} & known
