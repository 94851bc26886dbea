"""Make the envelope of a job file, as its user: for `radrm submit` and for watched folders.

People wait for `radrm submit`, so this file imports little.
"""

from __future__ import annotations

import os
import sys
import time

from radrm.errors import BadFile, plain
from radrm.host.storage.sources import MAX_SCRIPT, sources_of
from radrm.host.storage.spool import RLIMITS, Envelope
from radrm.host.storage.tickets import new_ticket
from radrm.host.wall import LAST_S, wall_s
from radrm.jobfile.command_line import STDIN
from radrm.jobfile.inherited import drop_outer
from radrm.jobfile.options import MOMENTS, RawOptions
from radrm.jobfile.radfile import MAX_BYTES, JobFile, read_job_file, wrap_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from radrm.jobfile.moments import Here


def load(name: str) -> bytes:
    """Return the bytes of a job file, or of standard input for `-`; at most one too many."""
    if name == STDIN:
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        with open(name, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        step = "name a job file, or write a command after --, as: radrm submit -- python train.py"
        raise BadFile(f"cannot read the job file {plain(name)}: {error.strerror}; {step}") from None


def job_file_in(envelope: Envelope) -> JobFile:
    """Return the job file that an envelope carries, as it was written. Raises `RadrmError`."""
    if envelope.command is not None:
        return wrap_command(list(envelope.command), envelope.options)
    data = (envelope.script or "").encode("utf-8", "surrogateescape")
    name = envelope.file or "job"
    return read_job_file(data, name, envelope.options, arguments=envelope.arguments)


def here(now_s: float | None = None) -> Here:
    """Return this process's zone, with the time `now_s` (None: that of the system's clock)."""
    from radrm.jobfile.moments import Here  # few submissions name moments

    return Here(wall_s() if now_s is None else now_s, local_offset_s)


def local_offset_s(wall_s: float) -> float:
    """Return the seconds by which local time (`TZ`) is ahead of UTC at an epoch second."""
    return float(time.localtime(min(max(0.0, wall_s), LAST_S)).tm_gmtoff)


def envelope_of(
    job_file: JobFile,
    name: str | None,
    data: bytes | None,
    raw: RawOptions,
    *,
    ticket: str | None = None,
    environment: Mapping[str, str] | None = None,
    umask: int | None = None,
) -> Envelope:
    """The envelope of a job that runs in the current folder. What is not given is drawn anew
    (the ticket) or this process's own (environment and umask). What radrm has set for the job in
    which this process runs is left out. Raises `BadFile`.

    The moments of a `job_file` that is `dated` override those of its script.
    """
    if umask is None:
        umask = os.umask(0o077)
        os.umask(umask)
    cwd = _here()
    environment = dict(os.environ if environment is None else environment)
    drop_outer(environment)
    envelope = Envelope(
        ticket=ticket or new_ticket(),
        file=os.path.abspath(name) if name is not None else None,
        script=data.decode() if data is not None else None,
        command=job_file.argv if data is None else None,
        options={**raw, **{name: job_file.raw[name] for name in MOMENTS & job_file.raw.keys()}},
        cwd=cwd,
        umask=umask,
        environment=environment,
        submitted_s=wall_s(),
        summary=_summary(job_file),
        sources=_sources(job_file, cwd, environment),
        table=job_file.table,
        arguments=job_file.arguments,
        host=os.uname().nodename or None,
        rlimits=_rlimits(),
    )
    if envelope.too_large:
        raise BadFile(
            f"{name or job_file.name}: larger than 8 MiB with its model summary and the "
            "environment; submit it from a smaller environment"
        )
    return envelope


def _rlimits() -> dict[str, int]:
    import resource

    return {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0] for name in RLIMITS}


def with_table(job_file: JobFile, typed: bool = False) -> JobFile:
    """Return a job file with the values of its `--params` file, as its user may read it.

    `typed`: its user has named the file on the command line: it may be `-`, or a pipe to wait for.
    Raises `BadFile` and `UsageError`.
    """
    named = job_file.options.params
    if named is None and not job_file.options.param:
        return job_file
    from radrm.jobfile.sweeps import with_table as add_table  # few submissions are sweeps

    if named is None:
        return add_table(job_file, None)
    if named == "-" and not typed:
        raise BadFile("--params=- is for the command line of radrm submit; name a file")
    if named != "-":
        named = os.path.join(job_file.options.chdir or "", named)
    return add_table(job_file, read_text(named, "--params", typed))


def read_text(path: str, option: str, wait: bool) -> str:
    """Return the text of a file with values, or of standard input (`-`).

    `wait`: for the writer of a pipe. Raises `BadFile`.
    """
    try:
        flags = os.O_RDONLY | os.O_CLOEXEC | (0 if wait else os.O_NONBLOCK)
        handle = os.dup(0) if path == "-" else os.open(path, flags)
        with open(handle, "rb") as file:
            data = file.read(MAX_BYTES + 1) or b""  # None: a pipe has nothing yet
    except OSError as error:
        step = f"name another file with {option}"
        raise BadFile(f"cannot read {option} {path}: {error.strerror}; {step}") from None
    if len(data) > MAX_BYTES:
        raise BadFile(f"{option} {path}: larger than 1 MiB; use fewer rows")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        where = f"not UTF-8 at byte offset {error.start}"
        raise BadFile(f"{option} {path}: {where}; save the file as UTF-8") from None


def _sources(job_file: JobFile, cwd: str, environment: Mapping[str, str]) -> str | None:
    words = job_file.argv or (job_file.script or "")[:MAX_SCRIPT].split()
    return sources_of(words, os.path.join(cwd, job_file.options.chdir or ""), environment)


def _summary(job_file: JobFile) -> str | None:
    """The model summary that the job names, read by the one who may read it."""
    named = job_file.options.model_summary
    if named is None:
        return None
    path = os.path.join(job_file.options.chdir or "", named)
    try:
        # Never waiting for a FIFO, nor taking in a disk.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        cause = f"cannot be read: {error.strerror}"
    else:
        if len(data) <= MAX_BYTES:
            return data.decode("utf-8", "replace").replace("\0", "")
        cause = "is larger than 1 MiB"
    words = plain(f"radrm: the model summary {path} {cause}; it is left out")
    sys.stderr.write(f"{words}\n")
    return None


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise BadFile("the current folder no longer exists; change to one that does") from None
