"""`radrm logs`: print a job's log. This process opens the file, with its user's own rights."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from radrm.cli.parameters import CLUSTER, FLAG, JOB, NUMBER, Parameter
from radrm.cli.show.log import log_writer
from radrm.client.connection import Client
from radrm.client.tail import Tail, owner_of
from radrm.client.text import label, warn
from radrm.errors import RadrmError, Refused, UsageError, plain
from radrm.host.storage.paths import client_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.connection import Ask
    from radrm.client.text import Document

_FOLLOW = "Print both logs until the job ends; end with its exit code."
_ATTEMPT = "Which attempt; the last one by default."
LOGS_PARAMETERS = (
    JOB,
    Parameter("follow", FLAG, _FOLLOW, flags=("-f", "--follow")),
    Parameter("stderr", FLAG, "Standard error instead.", flags=("--stderr",)),
    Parameter("attempt", NUMBER, _ATTEMPT, "N", ("--attempt",), least=1),
    Parameter("lines", NUMBER, "Only the last N lines.", "N", ("--lines", "-n"), least=0),
    CLUSTER,
)


def logs(
    job: str, follow: bool, stderr: bool, attempt: int | None, lines: int | None, cluster: bool
) -> int:
    """Print a job's log; -f as it runs.

    -f waits for a job that has not started, and goes on through recoveries and retries. It shows
    standard error too, and ends with the job's exit code. Ctrl-C ends only the command: the job
    goes on. With --attempt it shows that attempt only, and ends with 0.

    \b
    Examples:
      radrm logs 12 -f
      radrm logs @ -f && echo fine
      radrm logs 12 --stderr --lines 50
      radrm logs 12 --attempt 1
    """
    which = "stderr" if stderr else "stdout"
    if cluster or (job.isdigit() and not follow and _only_slurm_is_here()):
        if follow or attempt is not None:
            raise UsageError("--cluster does not go with --follow or --attempt: Slurm has one log")
        from radrm.wings import target  # few look at a cluster

        target("cluster").show_log(job, stderr, lines)
        return 0
    with Client() as client:
        if follow:
            return _follow(client, job, stderr, attempt, lines)
        place = client.ask("logs", jobs=[job], attempt=attempt)
        user = the_job(client.ask, job)["user"] if sys.stdout.isatty() else None
    tail = Tail(place[which], owner_of(place), warn)
    if lines is not None:
        tail.skip_to_last(lines)
    if not tail.copy_new(log_writer(user)):
        when = " yet" if place["live"] else ""
        raise Refused(f"the log {plain(place[which])} does not exist{when}")
    return 0


def _only_slurm_is_here() -> bool:
    """Return whether this is a login node: no daemon was ever here, and radrm is under Slurm."""
    if any(os.path.exists(paths.state) for paths in client_paths(os.environ, os.getuid())):
        return False
    from radrm.wings import target

    with suppress(RadrmError):
        return target("cluster").is_configured() is True
    return False


def _follow(client: Client, job: str, stderr: bool, attempt: int | None, lines: int | None) -> int:
    from radrm.cli.show.log import outputs, stream_and_leave
    from radrm.client.follow import LogFollower, Patient

    found = the_job(client.ask, job)
    reference = label(found)
    if found["attempts"]:
        logs = client.ask("logs", jobs=[reference])
        if logs["stdout"] == logs["stderr"] == os.devnull:
            raise Refused(
                f"job {reference} keeps no log, as a terminal of radrm run --pty; "
                f"look at it by: radrm status {reference}"
            )
    writes = {"stderr": log_writer(found["user"])} if stderr else outputs(found["user"])
    if attempt is None:
        return stream_and_leave(client, reference, writes, lines)
    LogFollower(Patient(client, warn).ask, reference, writes, warn).follow(attempt, lines)
    return 0


def the_job(ask: Ask, reference: str) -> Document:
    """The one job that a reference names."""
    document: Document = ask("explain", jobs=[reference])["job"]
    return document
