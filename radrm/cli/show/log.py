"""A job's log on standard output or error, also until the job has ended."""

from __future__ import annotations

import os
import sys
from functools import partial

from radrm.client.follow import Patient, stream
from radrm.client.tail import harmless
from radrm.client.text import my_name, warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TextIO

    from radrm.client.connection import Client
    from radrm.client.tail import Begins, Write
    from radrm.client.text import Document


def log_writer(user: str | None, stream: TextIO | None = None, marks: bool = False) -> Write:
    """Return a function that writes a log of `user` to `stream` (None: standard output).

    On a terminal it makes control characters in another user's log visible. With `marks` it writes
    in red, for standard error. `user` None: the reader's own job.
    """
    target = sys.stdout if stream is None else stream

    def write(data: bytes) -> Any:
        target.buffer.write(data)
        target.buffer.flush()

    if not target.isatty():
        return write
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    shown = (lambda data: write(b"\x1b[31m" + data + b"\x1b[39m")) if marks and not plain else write
    return shown if user is None or user == my_name() else harmless(shown)


EXIT_INTERRUPTED = 130


def stream_and_leave(
    client: Client,
    reference: str,
    writes: Mapping[str, Write],
    lines: int | None = None,
    begins: Begins | None = None,
) -> int:
    """Show the output of a job until it has ended. Returns the job's exit code.

    Ctrl-C ends only this. `writes`: where each log goes. `lines`: of the present logs, show only
    so many last lines. `begins`: of `stream`.
    """
    ask = Patient(client, warn).ask
    shown = partial(stream, ask, reference, writes, warn, lines, begins=begins)
    return until_left(lambda: ended(shown()), reference)


def until_left(show: Callable[[], int], reference: str) -> int:
    """Call `show`; Ctrl-C ends only that."""
    try:
        return show()
    except KeyboardInterrupt:
        again = f"radrm logs -f {reference}"
        warn(f"the job goes on; its output again: {again}; to end it: radrm cancel {reference}")
        return EXIT_INTERRUPTED


def outputs(user: str | None, stderr_only: bool = False) -> dict[str, Write]:
    """Where the two logs of a job of `user` go: both to standard output, in the order in which
    they grow. `user` None: the reader's own job."""
    both = {"stdout": log_writer(user), "stderr": log_writer(user, marks=True)}
    return {"stderr": both["stdout"]} if stderr_only else both


def ended(job: Document) -> int:
    """Say how a job ended, unless it completed. Returns its exit code."""
    from radrm.client.awaiting import exit_code, tell_failures  # only who follows a job

    tell_failures([job])
    return exit_code(job)
