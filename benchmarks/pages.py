"""Run the commands of the pages with figures, and fail where a page and its command differ.

    python -m benchmarks.pages [--data FOLDER] [--only WORD] [--write]

This is `make pages`, a part of `make proofs`. Each command prints its page or section; its CPU
time is printed, too. CPU times and the measurements of a real daemon differ between runs, so they
are not compared. Pages whose data or PyTorch are not there are named and left as they
are. In the end docs/lab/what-is-true.md must be what `benchmarks.truth` makes of the pages.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from benchmarks import truth
from tests.paths import REPOSITORY, SHARED_DATA

DOCS = REPOSITORY / "docs"
_SECONDS = re.compile(r"\d+\.\d{3} s")


class Page(Struct, frozen=True):
    """A page below docs/, or one section of it, and the module that prints it."""

    page: str
    command: tuple[str, ...]
    section: str | None = None
    needs: str | None = None
    """`data`: the authors' traces; `torch`: PyTorch and the measured data."""
    measured: bool = False
    """It depends on the machine: it is run, and not compared."""
    by_hand: bool = False
    """It depends on the machine, and takes long: it is run where `--only` names it."""
    drawn: bool = False
    """With `--draw` the command draws the page's picture, too."""


PAGES = (
    Page("lab/reproduction-flowcon-specon", ("benchmarks.flowcon",), "flowcon"),
    Page("lab/reproduction-flowcon-specon", ("benchmarks.specon",), "specon"),
    Page("lab/reproduction-elastic", ("benchmarks.elastic",), "models"),
    *(
        Page(
            "lab/reproduction-andreas",
            ("benchmarks.deadlines", "--part", part),
            f"andreas-{part}",
            measured=part == "real",
            drawn=part == "costs",
        )
        for part in ("sizes", "server", "real", "costs")
    ),
    Page("lab/reproduction", ("benchmarks.simulation.reproduction",), needs="data"),
    Page("lab/shipped", ("benchmarks.simulation.shipped", "--part", "page"), needs="data"),
    Page("policies", ("benchmarks.simulation.shipped", "--part", "goals"), "goals", needs="data"),
    Page("lab/gpumemnet-tables", ("benchmarks.gpumemnet.train", "--tables"), needs="torch"),
    Page("lab/gpumemnet", ("benchmarks.gpumemnet.extremes",), "extremes", needs="torch"),
    Page(
        "lab/reproduction-flowcon-specon",
        ("benchmarks.checkpoint",),
        "checkpoint",
        needs="torch",
        by_hand=True,
    ),
    Page("lab/speed", ("benchmarks.peers",), "peers", by_hand=True),
    Page("lab/speed", ("benchmarks.growth",), "growth", by_hand=True),
)


def section_of(text: str, name: str) -> str:
    """Return the text between the marker lines of a section. Raises `ValueError` without them."""
    begin = f"<!-- {name}: begin -->\n"
    return text[text.index(begin) + len(begin) : text.index(f"<!-- {name}: end -->")]


def difference(page: Page, found: str) -> str | None:
    """Return the first line in which a page differs from what its command printed; None: none."""
    text = (DOCS / f"{page.page}.md").read_text()
    there = text if page.section is None else section_of(text, page.section)
    pairs = zip(_lines(there), _lines(found), strict=False)
    for old, new in pairs:
        if old != new:
            return f"page: {old}\n  now: {new}"
    if len(_lines(there)) != len(_lines(found)):
        return f"page: {len(_lines(there))} lines, now: {len(_lines(found))}"
    return None


def _lines(text: str) -> list[str]:
    return [_SECONDS.sub("s", line.rstrip()) for line in text.strip().splitlines()]


def _printed(page: Page, options: argparse.Namespace) -> str:
    command = [sys.executable, "-m", *page.command]
    if page.needs == "data":
        command += ["--data", str(options.data)]
    if page.drawn and options.write:
        command.append("--draw")
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _children_s() -> float:
    """Return the CPU seconds of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--data", type=Path, default=SHARED_DATA, help="the authors' traces")
    parser.add_argument("--only", default="", help="only commands with this word")
    parser.add_argument("--write", action="store_true", help="write the pages")
    options = parser.parse_args()
    wrong = 0
    for page in PAGES:
        name = " ".join(page.command)
        if options.only not in name or (page.by_hand and not options.only):
            continue
        if (page.needs and not options.data.is_dir()) or (
            page.needs == "torch" and find_spec("torch") is None
        ):
            print(f"{name}: left out, it needs {page.needs}", flush=True)
            continue
        before_s = _children_s()
        found = _printed(page, options)
        why = None if page.measured or page.by_hand else difference(page, found)
        if options.write:
            path = DOCS / f"{page.page}.md"
            if page.section is not None:
                text = path.read_text()
                found = text.replace(section_of(text, page.section), f"{found.strip()}\n")
            path.write_text(found)
        took_s = _children_s() - before_s
        print(f"{name}: {why or 'as its page'} ({took_s:.0f} CPU seconds)", flush=True)
        wrong += why is not None
    if options.write:
        truth.PAGE.write_text(truth.page())
    elif truth.PAGE.read_text() != truth.page():
        print(f"{truth.PAGE.name}: differs; run python -m benchmarks.truth")
        wrong += 1
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
