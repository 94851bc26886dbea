"""What `radrm install-service` and `radrm uninstall-service` share: options, the lines of steps."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import typer

from radrm.errors import Refused, StoreError, plain
from radrm.host.service.files import File, State, under
from radrm.host.service.steps import Site, command_text, is_ours

Root = Annotated[
    str | None,
    typer.Option(
        "--root", metavar="DIR", help="Change the system whose files are in DIR: an image."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the steps, and change nothing.")]

_WORDS = {State.NEW: "write", State.SAME: "same", State.OLDER: "update", State.EDITED: "changed"}


def be_root(dry_run: bool) -> None:
    """Raise `Refused` for a user who is not root, unless nothing is to be changed."""
    if os.geteuid() == 0 or dry_run:
        return
    words = [os.path.abspath(sys.argv[0]), *sys.argv[1:]]
    raise Refused(f"only root can do this; run: sudo {command_text(words)}")


def install_lines(
    states: Iterable[tuple[File, State]], commands: Iterable[Sequence[str]], where: Site
) -> list[str]:
    """`write`: new; `same`: nothing to do; `update`: ours; `changed`: by hand."""
    files = [_line(_WORDS[state], f"{_place(file, where)}{_leads(file)}") for file, state in states]
    return files + _commands(commands)


def removal_lines(
    states: Iterable[tuple[File, State]],
    before: Iterable[Sequence[str]],
    after: Iterable[Sequence[str]],
    where: Site,
) -> list[str]:
    """`remove`: ours; `keep`: changed by hand, or another radrm's; `none`: not there."""
    lines = _commands(before)
    for file, state in states:
        word = "remove" if is_ours(state) else "none" if state is State.NEW else "keep"
        lines.append(_line(word, _place(file, where)))
    return lines + _commands(after)


@contextlib.contextmanager
def one_line(what: str) -> Iterator[None]:
    """Turn an OSError into one line: `what` failed, at which path, and why."""
    try:
        yield
    except OSError as error:
        where = "" if error.filename is None else f" {os.fsdecode(error.filename)}"
        raise StoreError(
            f"{what}{where}: {error.strerror}; correct it and run this again"
        ) from None


def show(lines: Iterable[str]) -> None:
    print("\n".join(map(plain, lines)), flush=True)


def shown_source(package: str) -> str:
    """What pip can install: the checkout that holds the folder `package`, else the folder of the
    caller."""
    above = os.path.dirname(os.path.abspath(package))
    return above if os.path.isfile(f"{above}/pyproject.toml") else "."


def _commands(commands: Iterable[Sequence[str]]) -> list[str]:
    return [_line("run", command_text(command)) for command in commands]


def _place(file: File, where: Site) -> str:
    return under(where.root, file.path)


def _leads(file: File) -> str:
    return "" if file.leads_to is None else f" -> {shlex.quote(file.leads_to)}"


def _line(word: str, text: str) -> str:
    return f"{word:8}{text}"
