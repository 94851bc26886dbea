"""The pages of the guide, to which messages send people: `radrm help TOPIC`.

A wheel brings them in the folder `guide` of the package; a checkout has its own folder docs/. A
command has its help under its name, so no page has the name of a command.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path

import radrm
from radrm.client.text import print_text
from radrm.errors import UsageError
from radrm.spellings import command_hint

_PACKAGE = Path(radrm.__file__).parent
_PLACES = (_PACKAGE / "guide", _PACKAGE.parent / "docs")


def topics() -> dict[str, Path]:
    """The page of each topic, in their order."""
    folder = next((place for place in _PLACES if (place / "index.md").is_file()), None)
    pages = sorted(folder.glob("*.md")) if folder else ()
    return {page.stem: page for page in pages}


def show(name: str, known: Collection[str]) -> None:
    """Print a page, on a terminal by the user's pager. `known`: the commands.

    Raises `UsageError` for no topic.
    """
    found = topics()
    page = found.get(name)
    if page is None:
        raise UsageError(_unknown(name, found, known))
    text = page.read_text(encoding="utf-8")
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        print_text(text)
        return
    from pydoc import pager

    pager(text)


def _unknown(name: str, found: Collection[str], known: Collection[str]) -> str:
    hint = command_hint(name, known)
    if close := get_close_matches(name, found, 1):
        hint = hint or f"did you mean {close[0]}?"
    return f"no command or topic is called {name}; {hint or 'see radrm help --all'}"
