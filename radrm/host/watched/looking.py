"""Starts a look's process, reads its report, limits its time and ends it.

Theory of operation: the process runs as the folder's owner, who may change what it prints. So its
report is limited in size, checked, and freed of control characters. A token in the environment and
a control group identify all its processes. If the daemon is killed, the look ends itself at its
time limit, and the next look continues its claims.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import subprocess
import sys
import time

import msgspec

from radrm.errors import plain
from radrm.host.processes import cgroups
from radrm.host.processes.procfs import TOKEN_VARIABLE
from radrm.host.processes.tree import kill_tree
from radrm.host.watched import start_look
from radrm.host.watched.start_look import LIMIT_S, Wanted
from radrm.host.watched.taking import MOST_FILES, Report

MAX_REPORT = 2 << 20
_GRACE_S = 5.0
"""Seconds after its time limit at which a look that has not ended itself is ended."""
_MAX_TEXT = 500
_GROUP = "radrm-look-"


class _Shape(msgspec.Struct):
    """The fields of a valid report, and their types."""

    taken: list[tuple[str, str, str]]
    refused: list[tuple[str, str]]
    more: bool = False
    unsettled: int = 0
    error: str | None = None
    notes: list[str] = []
    logged_in: bool = False


class Running:
    """One look that runs. Raises `OSError` if its process cannot be started."""

    def __init__(self, wanted: Wanted) -> None:
        self._folder = wanted.folder
        self._token = secrets.token_hex(16)
        group = cgroups.place(f"{_GROUP}{self._token[:8]}")
        self._group = group if group is not None and cgroups.make(group) else None
        self.until = time.monotonic() + LIMIT_S + _GRACE_S
        self._output = b""
        record = {**wanted.as_dict(), "cgroup": self._group}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", start_look.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={TOKEN_VARIABLE: self._token},
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            self._remove_group()
            raise
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as to:
            to.write(json.dumps(record).encode("ascii"))
        self._source = self._process.stdout.fileno()
        os.set_blocking(self._source, False)

    def fileno(self) -> int:
        """The descriptor to poll: it is readable when `ended` should be called."""
        return self._source

    def ended(self) -> bool:
        """Read what has arrived. True at the end of the output, or when its time is over."""
        try:
            while part := os.read(self._source, 1 << 16):
                self._output += part
                if len(self._output) > MAX_REPORT:
                    return True
        except BlockingIOError:
            return time.monotonic() > self.until
        return True

    def close(self) -> Report:
        """End its remaining processes and return its report."""
        late = time.monotonic() > self.until - _GRACE_S
        report = _checked(self._output)
        if report is None:
            why = f"took longer than {LIMIT_S} s" if late else "ended without a report"
            report = Report([], [], error=f"{self._folder}: the look into it {why}")
        gone = self._group is not None and cgroups.kill(self._group)
        if not gone and (report.logged_in or report.error is not None):
            # Nothing uses the processes that a login leaves behind (an agent, for example).
            kill_tree(self._token, None, known=[self._process.pid], cgroup=self._group)
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)  # a process that hangs in the kernel takes longer
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._remove_group()
        return report

    def _remove_group(self) -> None:
        """Remove the control group, once its last process has ended, or give up after 1 s."""
        until = time.monotonic() + 1.0
        while self._group is not None and not cgroups.remove(self._group):
            if time.monotonic() > until:
                break
            time.sleep(0.005)


def look_now(wanted: Wanted) -> Report:
    """Run one look and wait for its report. Raises `OSError` if its process cannot be started."""
    running = Running(wanted)
    try:
        while not running.ended():
            select.select([running], [], [], max(0.0, running.until - time.monotonic()))
    finally:
        report = running.close()
    return report


def remove_leftover_groups() -> None:
    """Remove the control groups of looks whose daemon was killed.

    Only an empty group can be removed, so a look that still runs keeps its group.
    """
    group = cgroups.place(_GROUP)
    above = os.path.dirname(group) if group is not None else ""
    with contextlib.suppress(OSError):
        for name in os.listdir(above):
            if name.startswith(_GROUP):
                cgroups.remove(os.path.join(above, name))


def _checked(output: bytes) -> Report | None:
    """The report in the output, with short and plain texts; None if there is none."""
    if len(output) > MAX_REPORT:
        return None
    try:
        shape = msgspec.json.decode(output, type=_Shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return Report(
        taken=[[_short(word) for word in each] for each in shape.taken[: 2 * MOST_FILES]],
        refused=[[_short(word) for word in each] for each in shape.refused[: 2 * MOST_FILES]],
        more=shape.more,
        unsettled=shape.unsettled,
        error=None if shape.error is None else _short(shape.error),
        notes=[_short(note) for note in shape.notes[: 2 * MOST_FILES]],
        logged_in=shape.logged_in,
    )


def _short(text: str) -> str:
    return plain(text)[:_MAX_TEXT]
