"""The question before a command touches everything. All commands that ask, ask here."""

from __future__ import annotations

import sys

from radrm.client.text import say
from radrm.errors import RadrmError, UsageError, plain

EXIT_INTERRUPTED = 130


class Unchanged(RadrmError):
    """The user did not say yes."""


def be_sure(question: str, instead: str) -> None:
    """Ask on the terminal. Raises `Unchanged` for any answer but yes, with exit code 130 for
    Ctrl-C; `UsageError` without a terminal.

    `instead`: what can be given on the command line, in place of an answer.
    """
    if not on_terminal():
        raise UsageError(f"{question} There is no terminal to ask at; {instead}")
    try:
        sys.stderr.write(f"{plain(question)} [y/N] ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        say("", error=True)
        unchanged = Unchanged("nothing was changed")
        unchanged.exit_code = EXIT_INTERRUPTED
        raise unchanged from None
    if not answer.endswith("\n"):
        say("", error=True)  # the end of the input is no line
    if answer.strip().lower() not in ("y", "yes"):
        raise Unchanged("nothing was changed")


def on_terminal() -> bool:
    """Whether a user can answer a question."""
    return sys.stdin is not None and sys.stdin.isatty()
