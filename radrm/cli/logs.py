"""`radrm logs`: what a job has printed. The file is opened by the one who asks."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any, BinaryIO

import typer

from radrm.cli.client import Client
from radrm.errors import Refused

_CHUNK = 64 * 1024
_PAUSE_S = 0.1


def logs(
    job: Annotated[str, typer.Argument(help="A job id or ticket.")],
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Until the job ends.")] = False,
    stderr: Annotated[bool, typer.Option("--stderr", help="Standard error instead.")] = False,
    attempt: Annotated[int, typer.Option(help="Which attempt; the last one otherwise.")] = 0,
) -> None:
    """Print a job's log."""
    with Client() as client:
        words: dict[str, Any] = {"jobs": [job], "attempt": attempt or None}
        where = client.ask("logs", **words)
        path = where["stderr" if stderr else "stdout"]
        try:
            with open(path, "rb") as file:
                _copy(file)
                while follow and where["live"]:
                    time.sleep(_PAUSE_S)
                    where = client.ask("logs", jobs=[job], attempt=where["attempt"])
                    _copy(file)
        except OSError as error:
            raise Refused(f"cannot read the log {path}: {error.strerror}") from None


def _copy(file: BinaryIO) -> None:
    """All there is from here to the end of the file."""
    while data := file.read(_CHUNK):
        sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
