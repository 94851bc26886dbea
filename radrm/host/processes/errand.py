"""A short process that works for the daemon as a user, and its limits."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from radrm.host.processes import cgroups
from radrm.host.processes.procfs import TOKEN_VARIABLE
from radrm.host.processes.tree import kill_tree

# ------------------------------------------------------------------
# Limits that a short process sets itself before it becomes a user (`errand.py`).


_MEMORY_BYTES = 1 << 30
_FILE_BYTES = 64 << 20
_CPU_S = 30


def confine(limit_s: int, cgroup: str | None) -> None:
    """Limit this process and its children: memory, files, CPU time; `limit_s` seconds for itself.

    SIGALRM must have no handler. Raises `OSError`.
    """
    signal.alarm(limit_s)
    os.nice(10)  # jobs come first
    if cgroup is not None:
        cgroups.join(cgroup, os.getpid())
    for kind, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, _MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
        (resource.RLIMIT_CPU, _CPU_S),
    ):
        _, most = resource.getrlimit(kind)
        if most != resource.RLIM_INFINITY:
            limit = min(limit, most)
        resource.setrlimit(kind, (limit, limit))


# ------------------------------------------------------------------
# A short process that works for the daemon as a user: started, read within limits, and ended.
#
# Theory of operation: the process runs as a user who may change what it prints, so its output is
# limited in size, and the caller checks it. A token in the environment and a control group identify
# all its processes. If the daemon is killed, the process ends itself at its time limit
# (`confine`).


GRACE_S = 5.0
"""Seconds after its time limit at which a process that has not ended itself is ended."""


class Errand:
    """One process that runs. Raises `OSError` if it cannot be started."""

    def __init__(
        self,
        program: str,
        document: Mapping[str, Any],
        group: str,
        limit_s: float,
        most_bytes: int,
        grace_s: float = GRACE_S,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`program`: a file of radrm, run without site packages. It reads `document` as JSON, with
        the path of its control group in `cgroup`, whose name begins with `group`."""
        self.output = b""
        self._most_bytes = most_bytes
        self._token = secrets.token_hex(16)
        place = cgroups.place(f"{group}{self._token[:8]}")
        self._group = place if place is not None and cgroups.make(place) else None
        self._limit_at = time.monotonic() + limit_s
        self.until = self._limit_at + grace_s
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**(environment or {}), TOKEN_VARIABLE: self._token},
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            self._remove_group()
            raise
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as to:
            to.write(json.dumps({**document, "cgroup": self._group}).encode("ascii"))
        self._source = self._process.stdout.fileno()
        os.set_blocking(self._source, False)

    def fileno(self) -> int:
        """The descriptor to poll: it is readable when `ended` should be called."""
        return self._source

    def ended(self) -> bool:
        """Read what has arrived. True at the end of the output, or when its time is over."""
        try:
            while part := os.read(self._source, 1 << 16):
                self.output += part
                if len(self.output) > self._most_bytes:
                    return True
        except BlockingIOError:
            return time.monotonic() > self.until
        return True

    def wait(self) -> None:
        """Wait until `ended`."""
        while not self.ended():
            select.select([self], [], [], max(0.0, self.until - time.monotonic()))

    @property
    def late(self) -> bool:
        """True once its time limit has passed."""
        return time.monotonic() > self._limit_at

    def end(self, thorough: bool) -> None:
        """End it. `thorough`: also processes that it may have left, which takes longer."""
        gone = self._group is not None and cgroups.kill(self._group)
        if not gone and thorough:
            kill_tree(self._token, None, known=[self._process.pid], cgroup=self._group)
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)  # a process that hangs in the kernel takes longer
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._remove_group()

    def _remove_group(self) -> None:
        """Remove the control group, once its last process has ended, or give up after 1 s."""
        until = time.monotonic() + 1.0
        while self._group is not None and not cgroups.remove(self._group):
            if time.monotonic() > until:
                break
            time.sleep(0.005)


def remove_left_groups(prefix: str) -> None:
    """Remove the control groups of processes whose daemon was killed.

    Only an empty group can be removed, so a process that still runs keeps its group.
    """
    group = cgroups.place(prefix)
    above = os.path.dirname(group) if group is not None else ""
    with contextlib.suppress(OSError):
        for name in os.listdir(above):
            if name.startswith(prefix):
                cgroups.remove(os.path.join(above, name))
