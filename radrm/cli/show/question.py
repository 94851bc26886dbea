"""Questions on the terminal. All commands that ask, ask here."""

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
    if not is_yes(question, default=False):
        raise Unchanged("nothing was changed")


def is_yes(question: str, default: bool) -> bool:
    """Ask on the terminal. Enter means the default, and any answer but yes means no. Raises
    `Unchanged`."""
    answer = answer_to(question, "Y/n" if default else "y/N").lower()
    return answer in ("y", "yes") or (default and not answer)


def answer_to(question: str, default: str) -> str:
    """Ask on the terminal. Returns what was written, "" for Enter, whose answer is `default`.

    Raises `Unchanged` at the end of the input, and for Ctrl-C, with exit code 130.
    """
    try:
        sys.stderr.write(f"{plain(question)} [{plain(default)}] ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        say("", error=True)
        unchanged = Unchanged("nothing was changed")
        unchanged.exit_code = EXIT_INTERRUPTED
        raise unchanged from None
    if not answer.endswith("\n"):
        say("", error=True)
    if not answer:  # the end of the input is no answer
        raise Unchanged("nothing was changed")
    return answer.strip()


def on_terminal() -> bool:
    """Whether a user can answer a question."""
    return sys.stdin is not None and sys.stdin.isatty()
