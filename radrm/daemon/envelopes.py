"""An envelope read anew: the job file it carries, and whose it is."""

from __future__ import annotations

import os
import pwd
from dataclasses import replace

from radrm.host.spool import Envelope
from radrm.options import RawOptions
from radrm.radfile import JobFile, read_job_file, wrap_command


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
