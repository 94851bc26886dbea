"""A look's process, seen from whoever started it: begun, read, timed and ended.

It may run as somebody else, so that what it says is read with suspicion: bounded, checked,
and made plain.
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
from radrm.host.attempts import cgroups
from radrm.host.attempts.processes import kill_tree
from radrm.host.attempts.procfs import TOKEN_VARIABLE
from radrm.host.watched import start_look
from radrm.host.watched.start_look import LIMIT_S, Wanted
from radrm.host.watched.taking import MOST_FILES, Report

MAX_REPORT = 2 << 20
_GRACE_S = 5.0
"""A process that has not ended itself in time is ended so much later."""
_MAX_TEXT = 500
_GROUP = "radrm-look-"


class _Shape(msgspec.Struct):
    """What a report must look like."""

    taken: list[tuple[str, str, str]]
    refused: list[tuple[str, str]]
    more: bool = False
    unsettled: int = 0
    trouble: str | None = None
    notes: list[str] = []
    logged_in: bool = False


class Running:
    """One look under way. Raises `OSError` where its process cannot be started."""

    def __init__(self, wanted: Wanted) -> None:
        self._folder = wanted.folder
        self._token = secrets.token_hex(16)
        group = cgroups.place(f"{_GROUP}{self._token[:8]}")
        self._group = group if group is not None and cgroups.make(group) else None
        self.until = time.monotonic() + LIMIT_S + _GRACE_S
        self._said = b""
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
        """Can be read when there is something for `ended` to do."""
        return self._source

    def ended(self) -> bool:
        """Read what it says; True once it has said all, or its time is over."""
        try:
            while part := os.read(self._source, 1 << 16):
                self._said += part
                if len(self._said) > MAX_REPORT:
                    return True
        except BlockingIOError:
            return time.monotonic() > self.until
        return True

    def close(self) -> Report:
        """End what is left of it, and say what it came to."""
        late = time.monotonic() > self.until - _GRACE_S
        report = _checked(self._said)
        if report is None:
            why = "took too long" if late else "ended without a report"
            report = Report([], [], trouble=f"{self._folder}: the look into it {why}")
        gone = self._group is not None and cgroups.kill(self._group)
        if not gone and (report.logged_in or report.trouble is not None):
            # What a login leaves behind (an agent, say) is of no use to anybody here.
            kill_tree(self._token, None, known=[self._process.pid], cgroup=self._group)
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)  # longer takes one that hangs in the kernel
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._remove_group()
        return report

    def _remove_group(self) -> None:
        """Its last process may take a moment to go."""
        until = time.monotonic() + 1.0
        while self._group is not None and not cgroups.remove(self._group):
            if time.monotonic() > until:
                break
            time.sleep(0.005)


def look_now(wanted: Wanted) -> Report:
    """One look, waited for. Raises `OSError` where its process cannot be started."""
    running = Running(wanted)
    try:
        while not running.ended():
            select.select([running], [], [], max(0.0, running.until - time.monotonic()))
    finally:
        report = running.close()
    return report


def remove_leftover_groups() -> None:
    """Of looks whose daemon was killed. Only an empty group can be removed, so that a look that
    is still under way keeps its own."""
    group = cgroups.place(_GROUP)
    above = os.path.dirname(group) if group is not None else ""
    with contextlib.suppress(OSError):
        for name in os.listdir(above):
            if name.startswith(_GROUP):
                cgroups.remove(os.path.join(above, name))


def _checked(said: bytes) -> Report | None:
    """What was said, if it is a report: short and plain."""
    if len(said) > MAX_REPORT:
        return None
    try:
        shape = msgspec.json.decode(said, type=_Shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return Report(
        taken=[[_short(word) for word in each] for each in shape.taken[: 2 * MOST_FILES]],
        refused=[[_short(word) for word in each] for each in shape.refused[: 2 * MOST_FILES]],
        more=shape.more,
        unsettled=shape.unsettled,
        trouble=None if shape.trouble is None else _short(shape.trouble),
        notes=[_short(note) for note in shape.notes[: 2 * MOST_FILES]],
        logged_in=shape.logged_in,
    )


def _short(text: str) -> str:
    return plain(text)[:_MAX_TEXT]
