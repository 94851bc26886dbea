"""The limits of a user, and what the user has now."""

from __future__ import annotations

import os
import pwd

from radrm.daemon.intake.envelopes import user_name
from radrm.daemon.loop import Loop
from radrm.daemon.views.arguments import Words
from radrm.daemon.views.documents import Document
from radrm.errors import Refused, UsageError


def limits(loop: Loop, words: Words, uid: int) -> Document:
    """Each limit of a user with its value and the user's use.

    `limit` null: none. `use` null: nothing adds up. Only root and the daemon's user may ask about
    other users.
    """
    name = words.get("user")
    if uid not in (0, os.getuid()) and name not in (None, str(uid), user_name(uid)):
        # Not looked up: a directory service may keep the loop waiting for each name.
        raise Refused("only root may see the limits of another user")
    asked = _user(name, uid)
    users = loop.parts.users
    mine, use = users.of(asked), loop.scheduler.use_of(asked)
    spool = loop.parts.arrivals.use_of(asked)
    used: dict[str, float | None] = {
        "queued_jobs": use.queued,
        "running_jobs": use.running,
        "gpus": use.gpus,
        "reserved_gpu_hours": _reserved_hours(loop, asked),
        "array_size": None,
        "environment_kib": None,
        "priority_max": None,
        "spool_files": spool.files,
        "spool_mib": round(spool.size / 2**20, 1),
        "connections": loop.connections_of(asked),
        "requests_per_s": None,
    }
    note = None
    if not users.shared:
        note = "no limits: this daemon is its user's own"
    elif asked in users.exempt:
        note = "no limits: root and the daemon's user have none"
    return {
        "user": user_name(asked),
        "uid": asked,
        "note": note,
        "limits": [
            {"name": name, "limit": _limit(name, getattr(mine, name), note), "use": number}
            for name, number in used.items()
        ],
    }


def _limit(name: str, value: float, note: str | None) -> float | None:
    """A limit; None for none, where `note` says so or it is 0. These two are limits at 0, too."""
    at_zero = ("priority_max",) if note is not None else ("priority_max", "reserved_gpu_hours")
    return value if value or name in at_zero else None


def _reserved_hours(loop: Loop, uid: int) -> float:
    """The GPU-hours that a user has reserved for itself."""
    now_s, found = loop.clock.now().wall_s, loop.scheduler.snapshot.for_users
    mine = [each for each in found if each.own and each.by_uid == uid and each.end_s > now_s]
    return round(sum(each.gpu_hours for each in mine), 2)


def _user(name: object, uid: int) -> int:
    """Return the uid of a user by name or number; the client's, if none is named."""
    if name is None:
        return uid
    if not isinstance(name, str):
        raise UsageError("the request takes a user by name")
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        if name.isascii() and name.isdigit() and int(name) < 2**32:
            return int(name)
    raise Refused(f"there is no user {name[:40]!r}")
