"""A job's log on standard output or error, also until the job has ended."""

from __future__ import annotations

import os
import sys

from radrm.client.exits import exit_code, tell_failures
from radrm.client.follow import Patient, stream
from radrm.client.tail import harmless
from radrm.client.text import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TextIO

    from radrm.client.connection import Client
    from radrm.client.tail import Write
    from radrm.client.text import Document


def log_writer(user: str | None, stream: TextIO | None = None) -> Write:
    """A function that writes a log of `user` to `stream` (None: standard output). On a terminal,
    it makes control characters in another user's log visible. `user` None: it is no terminal."""
    target = sys.stdout if stream is None else stream

    def write(data: bytes) -> Any:
        target.buffer.write(data)
        target.buffer.flush()

    if user is None or not target.isatty() or user == own_name():
        return write
    return harmless(write)


def own_name() -> str | None:
    """The name of this process's user; None for one without an entry."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None


EXIT_INTERRUPTED = 130


def stream_and_leave(
    client: Client, reference: str, writes: Mapping[str, Write], lines: int | None = None
) -> int:
    """Show the output of a job until it has ended. Returns the job's exit code.

    Ctrl-C ends only this. `writes`: where each log goes. `lines`: of the present logs, show only
    so many last lines.
    """
    patient = Patient(client, warn)
    try:
        return ended(stream(patient.ask, reference, writes, warn, lines))
    except KeyboardInterrupt:
        again = f"radrm logs -f {reference}"
        warn(f"the job goes on; its output again: {again}; to end it: radrm cancel {reference}")
        return EXIT_INTERRUPTED


def outputs(user: str | None) -> dict[str, Write]:
    """Where the two logs of a job of `user` go. `user` None: a job of one's own."""
    return {"stdout": log_writer(user), "stderr": log_writer(user, sys.stderr)}


def ended(job: Document) -> int:
    """Say how a job ended, unless it completed. Returns its exit code."""
    tell_failures([job])
    return exit_code(job)
