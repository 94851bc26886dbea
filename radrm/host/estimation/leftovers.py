"""Records running traces, so that the next daemon can end the processes of a killed one.

Usually none is left: a tracer's parent ends it when the daemon dies. But both may be killed.

Theory of operation: a trace has a record from before its start until after its end. A trace's
processes are those with its token, a secret in their environment, and those in its control
group; a restarted daemon ends no others. The folder is below the daemon's run folder, which a
reboot empties. A record of another boot is ignored.
"""

from __future__ import annotations

import contextlib
import json
import os
import re

from radrm.host.processes import cgroups
from radrm.host.processes.identity import boot_id
from radrm.host.processes.tree import kill_tree

GROUP = "radrm-trace-"
_NAME = re.compile(r"[0-9a-f]{32}\.json")
_MOST_READ = 4096
_MOST = 1000
"""Files that are read. A daemon leaves at most one per trace that it runs at the same time."""


def group_name(token: str) -> str:
    """The name of a trace's control group."""
    return f"{GROUP}{token[:8]}"


class Leftovers:
    """The records in `folder`. `note` makes the folder if it is missing."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def note(self, token: str, group: str | None, uid: int | None) -> None:
        """Record a trace, before its tracer starts. Raises `OSError`."""
        os.makedirs(self._folder, 0o700, exist_ok=True)
        fields = {"token": token, "cgroup": group, "uid": uid, "boot_id": boot_id()}
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._path(token), flags, 0o600)
        try:
            os.write(fd, json.dumps(fields).encode())
        finally:
            os.close(fd)

    def forget(self, token: str) -> None:
        """Remove a trace's record, after its end."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(token))

    def end(self) -> int:
        """KILL the processes of an earlier daemon's traces; return the number of records."""
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
        """The token, control group and user of a record; None unless it is of this boot."""
        token = name.removesuffix(".json")
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(self._path(token), flags)
            try:
                fields = json.loads(os.read(fd, _MOST_READ))
            finally:
                os.close(fd)
            group, uid = fields["cgroup"], fields["uid"]
            if fields["token"] != token or fields["boot_id"] != boot_id():
                return None
        except (OSError, ValueError, RecursionError, KeyError, TypeError):
            return None
        # `end` kills all processes of the group, so the group must be this trace's.
        if not isinstance(group, str) or os.path.basename(group) != group_name(token):
            group = None
        return token, group, uid if type(uid) is int else None

    def _path(self, token: str) -> str:
        return os.path.join(self._folder, f"{token}.json")
