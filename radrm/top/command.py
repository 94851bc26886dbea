"""`radrm top`: a live view to work in."""

from __future__ import annotations

import sys

from radrm.cli.parameters import FLAG, TEXT, WORDS, Parameter
from radrm.client.connection import Client
from radrm.errors import RadrmError, UsageError

_FILTER = "Only these jobs, as user=ann state=running resnet."
TOP_PARAMETERS = (
    Parameter("words", WORDS, _FILTER, "FILTER..."),
    Parameter("every", FLAG, "Also jobs that have ended (the latest 10000).", flags=("--all",)),
    Parameter("user", TEXT, "Only jobs of this user.", "NAME", ("--user",)),
)


def top(words: list[str], every: bool, user: str) -> None:
    """Show GPUs and jobs live, and give commands by key.

    `?` shows the keys: for the card and the log of a job, among others. It needs the extra `top`.

    \b
    Examples:
      radrm top
      radrm top --user ann
      radrm top state=running 'sweep-*'
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("radrm top needs a terminal; in a pipe use: radrm status --follow")
    try:
        from radrm.top.app import Top
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        from radrm.extras import lacks

        raise RadrmError(lacks("radrm top", "textual", "top")) from None
    from radrm.top.source import Source

    text = " ".join([*words, *([f"user={user}"] if user else [])])
    with Client() as client:
        client.connect()
        Top(Source(client), text, every).run()
