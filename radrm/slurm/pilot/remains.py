"""What is left to do of a submission when its pilot ends: what goes back to the shared folder.

A job that has not started goes back. One that has started goes back only if its user says that it
may run again (`--requeue`): it saves its work, or does no harm twice. Of an array those elements go
back of which this holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from radrm.client.states import FINAL
from radrm.errors import RadrmError
from radrm.host.storage.spool import Envelope
from radrm.jobfile.radfile import JobFile, read_job_file, wrap_command
from radrm.slurm.pilot.shared import Row


def job_file_of(envelope: Envelope) -> JobFile:
    """Return the job file in an envelope. Raises `RadrmError`."""
    if envelope.command is not None:
        return wrap_command(list(envelope.command), envelope.options)
    data = (envelope.script or "").encode("utf-8", "surrogateescape")
    return read_job_file(data, envelope.file or "job", envelope.options)


def may_run_again(envelope: Envelope) -> bool:
    """Return whether its user says that a job may run again after it was interrupted."""
    try:
        return bool(job_file_of(envelope).options.requeue)
    except RadrmError:
        return False


def is_left(row: Row, again: bool) -> bool:
    """Return whether a job goes back. `again`: it may run again."""
    return row["state"] not in FINAL and (again or not row["attempts"])


def rest_of(envelope: Envelope, rows: Sequence[Row]) -> tuple[Envelope | None, bool]:
    """Return what is left of an envelope by the rows of its jobs, and whether anything is.

    None: all of it is. Without rows the daemon has not taken it in: all of it is left.
    """
    try:
        job_file = job_file_of(envelope)
    except RadrmError:
        return None, not rows  # the daemon would say what is wrong with it
    left = [row for row in rows if is_left(row, bool(job_file.options.requeue))]
    if len(left) == len(rows):
        return None, True
    if not left or job_file.options.array is None:
        return None, bool(left)
    indices = sorted(row["index"] for row in left if row["index"] is not None)
    at_once = job_file.options.array.at_once
    text = ",".join(map(str, indices)) + ("" if at_once is None else f"%{at_once}")
    fields = {**envelope.as_dict(), "options": {**envelope.options, "array": text}}
    return Envelope(**fields), True
