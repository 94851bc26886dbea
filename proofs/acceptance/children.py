"""A step as a child with a time limit, and every process that it has left.

Theory of operation. Jobs, daemons and MPS servers leave the process group and the session of the
step that started them. So this process makes itself the subreaper of its descendants (prctl(2)):
a process whose parent ends becomes its child, and nothing that a step has started can leave the
tree. Signals go to a pid only after its start time was compared, and to no process outside it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from proofs.processes import Process, descendants, end_all, reap

_PAUSE_S = 0.05
GRACE_S = 5.0


@dataclass(frozen=True)
class Ended:
    """How a child ended. `code` None: it ran past its limit."""

    code: int | None
    seconds: float
    left: tuple[Process, ...] = ()


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
        end_all(GRACE_S)
        raise
    if code is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)
    seconds = time.monotonic() - began
    left = settled(child.pid)
    end_all(GRACE_S)
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


def settled(besides: int = 0, patience_s: float = 2.0) -> list[Process]:
    """What is left of our descendants, without zombies, once they had a moment to end."""
    deadline = time.monotonic() + patience_s
    while True:
        reap(besides)
        left = descendants(os.getpid())
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(_PAUSE_S)
