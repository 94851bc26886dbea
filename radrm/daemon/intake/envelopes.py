"""An envelope read anew: the job file it carries, and whose it is."""

from __future__ import annotations

import os
import pwd
import resource
from dataclasses import replace

from radrm.host.storage.spool import Envelope
from radrm.jobfile.options import RawOptions
from radrm.jobfile.radfile import JobFile, read_job_file, wrap_command

_LARGEST_STRING = 32 * os.sysconf("SC_PAGE_SIZE")
_LARGEST_OF_ALL = 6 * 1024 * 1024
_SMALLEST_OF_ALL = 128 * 1024
_POINTER = 8


def read_envelope(envelope: Envelope, options: RawOptions | None = None) -> JobFile:
    """The job file that was submitted, with its own options beside it, or with these.

    Raises `RadrmError` for one that cannot be used.
    """
    beside = envelope.options if options is None else options
    if envelope.command is not None:
        job_file = wrap_command(list(envelope.command), beside)
    else:
        data = (envelope.script or "").encode("utf-8", "surrogateescape")
        job_file = read_job_file(data, envelope.file or "job", beside)
    return replace(job_file, summary=envelope.summary)


def too_large_to_start(envelope: Envelope) -> str | None:
    """Why the kernel would start no program in this environment; None where it would.

    Such a job would be stored, launched and read anew by its runner, only to fail then. The
    limits are those of execve(2), and a job has the daemon's own limit of the stack.
    """
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    limit = _LARGEST_OF_ALL if stack == resource.RLIM_INFINITY else stack // 4
    limit = max(_SMALLEST_OF_ALL, min(limit, _LARGEST_OF_ALL))
    total = 0
    for name, value in envelope.environment.items():
        size = len(os.fsencode(name)) + len(os.fsencode(value)) + 2
        if size > _LARGEST_STRING:
            return (
                f"variable {name[:40]!r} of its environment has {size} bytes, and the kernel "
                f"takes {_LARGEST_STRING} at the most; shorten it"
            )
        total += size + _POINTER
    if total > limit:
        return (
            f"its environment has {total} bytes, and the kernel takes {limit} at the most; "
            "submit it from a smaller one"
        )
    return None


def group_of(uid: int, claimed: int) -> int:
    """The group that a submission's jobs run as: the envelope's, if its owner is a member. (A
    folder can give a file another group than its writer's.)"""
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return claimed
    return claimed if claimed in os.getgrouplist(user.pw_name, user.pw_gid) else user.pw_gid


def user_name(uid: int) -> str:
    """The login name, or the number where there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
