"""Traces under way, written down, so that the next daemon finds what a killed one has left.

As a rule there is nothing: a tracer's parent ends it when its daemon dies. But both may have
been killed. A trace is known by its token, a secret in the environment of its processes,
and by its control group; nothing is ended for any other reason. The folder lies below the
daemon's run folder, which a reboot empties.
"""

from __future__ import annotations

import contextlib
import json
import os
import re

from radrm.host.attempts import cgroups
from radrm.host.attempts.processes import boot_id, kill_tree

GROUP = "radrm-trace-"
_NAME = re.compile(r"[0-9a-f]{32}\.json")
_MOST_READ = 4096
_MOST = 1000
"""Files looked at: a daemon leaves as many as it traces at once."""


def group_name(token: str) -> str:
    """What the control group of a trace is called."""
    return f"{GROUP}{token[:8]}"


class Leftovers:
    """What is noted in `folder`, which is made where it is missing."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def note(self, token: str, group: str | None, uid: int | None) -> None:
        """Before a tracer is started. Raises `OSError`."""
        os.makedirs(self._folder, 0o700, exist_ok=True)
        fields = {"token": token, "cgroup": group, "uid": uid, "boot_id": boot_id()}
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._path(token), flags, 0o600)
        try:
            os.write(fd, json.dumps(fields).encode())
        finally:
            os.close(fd)

    def forget(self, token: str) -> None:
        """After its end."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(token))

    def end(self) -> int:
        """KILL what traces of an earlier daemon have left; how many traces were noted."""
        try:
            names = sorted(filter(_NAME.fullmatch, os.listdir(self._folder)))[:_MOST]
        except OSError:
            return 0
        found = [each for name in names if (each := self._read(name)) is not None]
        for token, group, uid in found:
            kill_tree(token, None, (), group, users=() if uid is None else (uid,))
            if group is not None:
                cgroups.remove(group)
        for name in names:
            self.forget(name.removesuffix(".json"))
        return len(found)

    def _read(self, name: str) -> tuple[str, str | None, int | None] | None:
        """What a daemon of this boot has noted; None for anything else."""
        token = name.removesuffix(".json")
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(self._path(token), flags)
            try:
                told = json.loads(os.read(fd, _MOST_READ))
            finally:
                os.close(fd)
            group, uid = told["cgroup"], told["uid"]
            if told["token"] != token or told["boot_id"] != boot_id():
                return None
        except (OSError, ValueError, RecursionError, KeyError, TypeError):
            return None
        if not isinstance(group, str) or os.path.basename(group) != group_name(token):
            group = None
        return token, group, uid if type(uid) is int else None

    def _path(self, token: str) -> str:
        return os.path.join(self._folder, f"{token}.json")
