"""The owner of a submission, and the kernel's limits for its environment."""

from __future__ import annotations

import grp
import os
import pwd
import resource

from radrm.host.storage.spool import Envelope

_LARGEST_STRING = 32 * os.sysconf("SC_PAGE_SIZE")
_LARGEST_OF_ALL = 6 * 1024 * 1024
_SMALLEST_OF_ALL = 128 * 1024
_POINTER = 8
_NOGROUP = 65534


def too_large_to_start(envelope: Envelope) -> str | None:
    """Why the kernel would start no program in this environment; None if it would.

    Without this check such a job would fail only at its launch. The limits are those of
    execve(2); a job has the larger limit of the stack, its submitter's or the daemon's.
    """
    stack, most = resource.getrlimit(resource.RLIMIT_STACK)
    theirs = (envelope.rlimits or {}).get("STACK", stack)
    if most != resource.RLIM_INFINITY:
        theirs = most if theirs == resource.RLIM_INFINITY else min(theirs, most)
    if stack != resource.RLIM_INFINITY:
        stack = theirs if theirs == resource.RLIM_INFINITY else max(stack, theirs)
    limit = _LARGEST_OF_ALL if stack == resource.RLIM_INFINITY else stack // 4
    limit = max(_SMALLEST_OF_ALL, min(limit, _LARGEST_OF_ALL))
    total = 0
    for name, value in envelope.environment.items():
        size = len(f"{name}={value}".encode("utf-8", "surrogateescape")) + 1
        if size > _LARGEST_STRING:
            return (
                f"variable {name[:40]!r} of its environment has {size} bytes, and the kernel "
                f"takes at most {_LARGEST_STRING}; shorten it"
            )
        total += size + _POINTER
    if total > limit:
        return (
            f"its environment has {total} bytes, and the kernel takes at most {limit}; "
            "submit it with fewer or shorter variables"
        )
    return None


def group_of(uid: int, claimed: int) -> int:
    """The group of a submission's jobs: the envelope's, if its owner is a member, else the
    owner's login group. (A setgid folder gives its files a group that the writer may lack.)

    A user without an entry in the password database is a member of nothing that can be proven:
    their jobs get the group `nogroup`, unless the daemon is that user's own.
    """
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return claimed if uid == os.geteuid() else _NOGROUP
    return claimed if claimed in os.getgrouplist(user.pw_name, user.pw_gid) else user.pw_gid


def group_name(gid: int) -> str:
    """The name of a group, or the number as text if there is none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def user_name(uid: int) -> str:
    """The login name of a user, or the number as text if there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
