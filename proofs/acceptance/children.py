"""A step as a child with a time limit, and every process that it has left.

Theory of operation. Jobs, daemons and MPS servers leave the process group and the session of the
step that started them. So this process makes itself the subreaper of its descendants (prctl(2)):
a process whose parent ends becomes its child, and nothing that a step has started can leave the
tree. Signals go to a pid only after its start time was compared, and to no process outside it. It
runs before the wheels are unpacked, so it needs only the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SUBREAPER = 36
_PAUSE_S = 0.05
_GRACE_S = 5.0


@dataclass(frozen=True)
class Process:
    """A descendant, known by its pid and start time."""

    pid: int
    parent: int
    start: int
    command: str


@dataclass(frozen=True)
class Ended:
    """How a child ended. `code` None: it ran past its limit."""

    code: int | None
    seconds: float
    left: tuple[Process, ...] = ()


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose parents have ended. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def run(command: Sequence[str], limit_s: float, log: Path, environment: Mapping[str, str]) -> Ended:
    """Run a command in a group of its own until its end or its limit; end what it has left."""
    began = time.monotonic()
    with log.open("wb") as out:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=dict(environment),
            start_new_session=True,
        )
    try:
        code = _wait(child, began + limit_s)
    except BaseException:
        end_all(_ours())
        raise
    if code is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_S)
    seconds = time.monotonic() - began
    left = settled(child.pid)
    end_all(left)
    if child.poll() is None:
        child.wait()
    return Ended(code, seconds, tuple(left))


def _wait(child: subprocess.Popen[bytes], end_s: float) -> int | None:
    """The child's exit code; None at `end_s`. Orphans that end meanwhile are reaped, because the
    step may wait for the end of one."""
    while time.monotonic() < end_s:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            time.sleep(_PAUSE_S)
        elif ended.si_pid == child.pid:
            return child.wait()
        else:
            os.waitpid(ended.si_pid, 0)
    return None


def settled(besides: int, patience_s: float = 2.0) -> list[Process]:
    """What is left of our descendants, without zombies, once they had a moment to end."""
    deadline = time.monotonic() + patience_s
    while True:
        _reap(besides)
        left = _ours()
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(_PAUSE_S)


def end_all(processes: Sequence[Process]) -> None:
    """End these descendants and what descends from them: TERM, and KILL after a while."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + _GRACE_S
        _send([*processes, *_ours()], number)
        while _ours() and time.monotonic() < deadline:
            _reap(0)
            time.sleep(_PAUSE_S)
        if not _ours():
            return


def _send(processes: Sequence[Process], number: int) -> None:
    for each in dict.fromkeys(processes):
        now = _read(each.pid)
        if now is not None and now.start == each.start:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each.pid, number)


def _reap(besides: int) -> None:
    """Reap orphans that have ended; the step itself (`besides`) is its Popen's affair."""
    for each in _children_of(os.getpid(), zombies=True):
        if each.pid != besides:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(each.pid, os.WNOHANG)


def _ours() -> list[Process]:
    """All descendants of this process that run, parents first."""
    children: dict[int, list[Process]] = {}
    for each in _all():
        children.setdefault(each.parent, []).append(each)
    found: list[Process] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += [each.pid for each in below]
    return found


def _children_of(pid: int, zombies: bool = False) -> list[Process]:
    return [each for each in _all(zombies) if each.parent == pid]


def _all(zombies: bool = False) -> Iterator[Process]:
    for name in os.listdir("/proc"):
        if name.isdecimal():
            found = _read(int(name), zombies)
            if found is not None:
                yield found


def _read(pid: int, zombies: bool = False) -> Process | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    name, _, rest = stat.partition(b"(")[2].rpartition(b")")
    words = rest.split()
    if words[0] in (b"Z", b"X") and not zombies:
        return None
    text = command.replace(b"\0", b" ").strip() or name
    return Process(pid, int(words[1]), int(words[19]), text.decode(errors="replace")[:200])
