"""`radrm logs`: print what jobs have printed. This process opens the files, with its user's own
rights."""

from __future__ import annotations

import os
import sys

from radrm.cli.parameters import CLUSTER, FLAG, NUMBER, WORD, Parameter
from radrm.cli.show.log import outputs, stream_and_leave, until_left
from radrm.client.connection import every_job
from radrm.client.follow import ArrayLogs, AttemptLogs, LogFollower, Patient
from radrm.client.last_state import ReadingClient
from radrm.client.tail import written_s
from radrm.client.text import FINAL, label, warn
from radrm.errors import RadrmError, Refused, Unreachable, UsageError, plain
from radrm.host.storage.paths import client_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.connection import Ask, Client
    from radrm.client.text import Document

_FOLLOW = "Go on until the job ends; end with its exit code."
_ATTEMPT = "Which attempt; the last one by default."
_STDERR = "Only standard error, of a job with --error."
_JOB = "A job or array: id (12), element (12_3), ticket, name, @ (last)."
LOGS_PARAMETERS = (
    Parameter("job", WORD, _JOB, "JOB", least=1),
    Parameter("follow", FLAG, _FOLLOW, flags=("-f", "--follow")),
    Parameter("stderr", FLAG, _STDERR, flags=("--stderr",)),
    Parameter("attempt", NUMBER, _ATTEMPT, "N", ("--attempt",), least=1),
    Parameter("lines", NUMBER, "Only the last N lines.", "N", ("--lines", "-n"), least=0),
    CLUSTER,
)


def logs(
    job: str, follow: bool, stderr: bool, attempt: int | None, lines: int | None, cluster: bool
) -> int:
    """Print what a job has printed; -f as it runs.

    Of an array: each line begins with its element. Standard error is in the same file, unless the
    job has --error. Then it is red on a terminal, and only -f knows its place among the other
    lines.

    -f waits for a job that has not started, and goes on through recoveries and retries. Ctrl-C ends
    only the command: the job goes on. With --attempt it shows that attempt only, and ends with 0.

    \b
    Examples:
      radrm logs 12 -f
      radrm logs @ -f && echo fine
      radrm logs 12 --lines 50
      radrm logs 12 --attempt 1
    """
    if cluster or (job.isdigit() and not follow and _only_slurm_is_here()):
        if follow or attempt is not None:
            raise UsageError("--cluster does not go with --follow or --attempt: Slurm has one log")
        from radrm.wings import target  # few look at a cluster

        target("cluster").show_log(job, stderr, lines)
        return 0
    try:
        return _of_daemon(job, follow, stderr, attempt, lines)
    except Unreachable as error:
        path = _log_here(job, attempt)
        if path is None:
            where = "a job's log is in the folder from which you have submitted it: radrm-ID.out"
            raise Unreachable(f"{error}; {where}") from None
        warn(f"{error}; this is {path}")
    place = {"stdout": path, "stderr": path, "uid": os.getuid(), "live": False}
    _show(place, None, stderr, lines)
    return 0


def _log_here(job: str, attempt: int | None) -> str | None:
    """The log of this user's job in the present folder, by its name: of the newest attempt."""
    if not job.replace("_", "", 1).isdecimal():
        return None
    from glob import glob

    name = f"radrm-{job}" if attempt in (None, 1) else f"radrm-{job}.attempt{attempt}"
    paths = [f"{name}.out", f"slurm-{job}.out"]
    paths += glob(f"{name}.attempt*.out") if attempt is None else ()
    mine = [path for path in paths if os.path.exists(path) and os.stat(path).st_uid == os.getuid()]
    return max(mine, key=lambda path: (written_s(path), "attempt" in path), default=None)


def _of_daemon(job: str, follow: bool, stderr: bool, attempt: int | None, lines: int | None) -> int:
    with ReadingClient() as client:
        if follow:
            return _follow(client, job, stderr, attempt, lines)
        try:
            place = client.ask("logs", jobs=[job], attempt=attempt)
        except Refused as error:
            found = _several(client.ask, job, error)
            _show_array(client, found, stderr, attempt, lines)
            return 0
        user = the_job(client.ask, job)["user"] if sys.stdout.isatty() else None
    _show(place, user, stderr, lines)
    return 0


def _show(place: Document, user: str | None, stderr: bool, lines: int | None) -> None:
    its = AttemptLogs(place, outputs(user, stderr), warn, patient=not stderr and _are_two(place))
    if lines is not None:
        its.skip_to_last(lines)
    its.copy_new()
    if not its.found:
        when = " yet" if place["live"] else ""
        missing = " or ".join(map(plain, its.missing or (place["stdout"],)))
        raise Refused(f"the log {missing} does not exist{when}")


def _are_two(place: Document) -> bool:
    return bool(place["stdout"] != place["stderr"])


def _several(ask: Ask, reference: str, error: Refused) -> list[Document]:
    """The jobs that a reference means which does not mean one: of a name whose jobs have all ended,
    the latest array. Raises `error` if it does not mean several."""
    found = every_job(ask, jobs=[reference])
    if all(job["state"] in FINAL for job in found):
        found = [job for job in found if job.get("array_id") == found[-1].get("array_id")]
    if len(found) < 2:
        raise error
    return found


def _array_logs(client: Client, found: list[Document], stderr: bool) -> ArrayLogs:
    # By id: a name, or `@`, may mean other jobs soon.
    array = {job.get("array_id") for job in found}
    names = [str(*array)] if len(array) == 1 and None not in array else list(map(label, found))
    return ArrayLogs(Patient(client, warn), names, lambda job: outputs(job["user"], stderr), warn)


def _show_array(
    client: Client, found: list[Document], stderr: bool, attempt: int | None, lines: int | None
) -> None:
    left = len(found) - _array_logs(client, found, stderr).show(found, lines, attempt)
    if left == len(found):
        what = "started yet" if attempt is None else f"an attempt {attempt}"
        raise Refused(f"none of the {left} jobs has {what}, so there is no log")
    if left:
        what = "not started yet" if attempt is None else f"no attempt {attempt}"
        warn(f"{left} of {len(found)} jobs have {what}")


def _only_slurm_is_here() -> bool:
    """Return whether this is a login node: no daemon was ever here, and radrm is under Slurm."""
    if any(os.path.exists(paths.state) for paths in client_paths(os.environ, os.getuid())):
        return False
    from radrm.wings import target

    try:
        return target("cluster").is_configured() is True
    except RadrmError:
        return False


def _follow(client: Client, job: str, stderr: bool, attempt: int | None, lines: int | None) -> int:
    try:
        found = the_job(client.ask, job)
    except Refused as error:
        several = _several(client.ask, job, error)
        if attempt is not None:
            raise UsageError(
                f"--attempt with -f goes with one job, as {label(several[0])}"
            ) from None
        return _follow_array(client, job, several, stderr, lines)
    reference = label(found)
    if found["attempts"]:
        logs = client.ask("logs", jobs=[reference])
        if logs["stdout"] == logs["stderr"] == os.devnull:
            raise Refused(
                f"job {reference} keeps no log, as a terminal of radrm run --pty; "
                f"look at it by: radrm status {reference}"
            )
    writes = outputs(found["user"], stderr)
    if attempt is None:
        return stream_and_leave(client, reference, writes, lines)
    LogFollower(Patient(client, warn).ask, reference, writes, warn).follow(attempt, lines)
    return 0


def _follow_array(
    client: Client, job: str, found: list[Document], stderr: bool, lines: int | None
) -> int:
    from radrm.client.awaiting import highest, tell_failures

    def show() -> int:
        jobs = _array_logs(client, found, stderr).follow(lines)
        tell_failures(jobs)
        return highest(jobs)

    return until_left(show, job)


def the_job(ask: Ask, reference: str) -> Document:
    """The one job that a reference names."""
    document: Document = ask("explain", jobs=[reference])["job"]
    return document
