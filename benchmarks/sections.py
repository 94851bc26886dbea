"""One section of a page that several benchmarks share."""

from __future__ import annotations

from pathlib import Path


def put_section(page: Path, name: str, text: str, title: str) -> None:
    """Replace the section `name` of a page; add it at the end if there is none.

    A section lies between two marker lines. A new page begins with `title`.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    section = f"{begin}\n{text.strip()}\n{end}\n"
    old = page.read_text() if page.exists() else f"# {title}\n"
    if begin in old and end in old:
        before, rest = old.split(begin, 1)
        new = before + section + rest.split(end, 1)[1].removeprefix("\n")
    else:
        new = f"{old.rstrip()}\n\n{section}"
    page.write_text(new)


def section_of(text: str, name: str) -> str:
    """Return the text between the marker lines of a section. Raises `ValueError` without them."""
    begin, end = text.index(f"<!-- {name}: begin -->"), text.index(f"<!-- {name}: end -->")
    return text[begin:end].partition("\n")[2]
