"""Replace the daemon by a new one in the same process: so it reads its configuration again.

Theory of operation. A restart is safe: jobs run on, and the next daemon re-adopts them. So a reload
is a restart that keeps the pid. The loop ends as after TERM, and `replace` executes the command of
this process again, with the environment that it began with. systemd keeps its main process.

- TERM and INT end the process at any time, as they do while a daemon starts.
- HUP is blocked over `exec`, which keeps it pending. `begin` of the new daemon takes it, so a
  second reload in that moment neither kills the daemon nor is lost.
- Children stay children, but the new daemon has no objects that wait for them. A thread reaps those
  that have ended.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from radrm.errors import Refused
from radrm.host.processes.procfs import read_stat

_REAP_S = 5.0


def begin() -> Callable[[], bool]:
    """Take over from a daemon that has replaced itself.

    Returns a function that says if HUP was received since, as long as no other handler is set.
    """
    hung_up: list[int] = []
    if signal.SIGHUP in signal.pthread_sigmask(signal.SIG_BLOCK, ()):
        signal.signal(signal.SIGHUP, lambda *_: hung_up.append(1))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGHUP,))
        threading.Thread(target=_reap, args=(_children(),), name="reaping", daemon=True).start()
    return lambda: bool(hung_up)


def check_program() -> None:
    """Raise `Refused` if this process cannot be started again."""
    if not os.access(sys.executable, os.X_OK):
        raise Refused(f"{sys.executable or 'Python'} cannot be executed; restart the daemon")


def replace(environment: Mapping[str, str], wanted: Callable[[], bool]) -> None:
    """Execute this process's command again in its place. Raises OSError.

    `wanted` returns False if TERM or INT was received: then nothing is executed. It is called after
    both have their default action, so that a later one ends the process.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    if not wanted():
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP,))
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def _children() -> set[int]:
    """The pids of this process's children."""
    me = os.getpid()
    stats = ((int(name), read_stat(int(name))) for name in os.listdir("/proc") if name.isdigit())
    return {pid for pid, stat in stats if stat is not None and stat.parent == me}


def _reap(children: set[int]) -> None:
    """Reap these children once they have ended."""
    while children:
        for pid in tuple(children):
            with suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            children.discard(pid)
        threading.Event().wait(_REAP_S)
