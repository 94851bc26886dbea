"""`radrm attach`: show a job's output as it runs, and end as it ends."""

from __future__ import annotations

import os

from radrm.cli.parameters import JOB, NUMBER, Parameter
from radrm.cli.streaming import stream_and_leave
from radrm.client.connection import Client
from radrm.client.text import label
from radrm.errors import Refused

_LINES = 10
_HELP = f"Begin with the last N lines; {_LINES} by default."
PARAMETERS = (JOB, Parameter("lines", NUMBER, _HELP, "N", ("--lines", "-n"), least=0))


def attach(job: str, lines: int | None) -> int:
    """Show a job's output as it runs; end with the job's exit code.

    Standard output goes to standard output, standard error to standard error. A job that waits is
    waited for. Ctrl-C detaches: the job goes on.

    \b
    Examples:
      radrm attach 12
      radrm attach @ && echo fine
    """
    with Client() as client:
        found = client.ask("explain", jobs=[job])["job"]
        if found["attempts"]:
            logs = client.ask("logs", jobs=[label(found)])
            if logs["stdout"] == logs["stderr"] == os.devnull:
                raise Refused(
                    f"job {label(found)} keeps no log, as a terminal of radrm run --pty; "
                    f"look at it by: radrm status {label(found)}"
                )
        return stream_and_leave(
            client, label(found), found["user"], _LINES if lines is None else lines
        )
