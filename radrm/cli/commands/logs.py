"""`radrm logs`: what a job has printed. The file is opened by the one who asks."""

from __future__ import annotations

import os
import pwd
import sys
from typing import Annotated, Any

import typer

from radrm.cli.options import Job
from radrm.client.connection import Client
from radrm.client.follow import Ask, LogFollower, Patient, end_line
from radrm.client.tail import Tail, Write, harmless
from radrm.client.text import Document, label, warn
from radrm.errors import Refused, plain


def logs(
    job: Job,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Until the job ends, through all attempts.")
    ] = False,
    stderr: Annotated[bool, typer.Option("--stderr", help="Standard error instead.")] = False,
    attempt: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Which attempt; the last one otherwise.")
    ] = None,
    lines: Annotated[
        int | None,
        typer.Option("--lines", "-n", metavar="N", min=0, help="Only so many of the last lines."),
    ] = None,
) -> None:
    """Print a job's log.

    With -f a job that waits is waited for, and a recovery or retry is followed too.

    \b
    Examples:
      radrm logs 12 -f
      radrm logs 12 --stderr --lines 50
      radrm logs 12 --attempt 1
    """
    which = "stderr" if stderr else "stdout"
    with Client() as client:
        if follow:
            ask = Patient(client, warn).ask
            found = the_job(ask, job)
            write = printer(found["user"])
            end = LogFollower(ask, label(found), which, write, warn).follow(attempt, lines)
            if sys.stdout.isatty() and attempt is None:
                warn(end_line(end))
            return
        place = client.ask("logs", jobs=[job], attempt=attempt)
        user = the_job(client.ask, job)["user"] if sys.stdout.isatty() else None
    tail = Tail(place[which], warn)
    if lines is not None:
        tail.skip_to_last(lines)
    if not tail.copy_new(printer(user)):
        when = " yet" if place["live"] else ""
        raise Refused(f"the log {plain(place[which])} does not exist{when}")


def the_job(ask: Ask, reference: str) -> Document:
    """The one job that a word means, as the daemon settles it."""
    document: Document = ask("explain", jobs=[reference])["job"]
    return document


def printer(user: str | None) -> Write:
    """Writes bytes to standard output as they are; made harmless where they are another
    user's and go to a terminal. `user` None: they do not go to one."""

    def write(data: bytes) -> Any:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    if user is None or not sys.stdout.isatty() or user == _own_name():
        return write
    return harmless(write)


def _own_name() -> str | None:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None
