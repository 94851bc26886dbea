"""The side of the process: its pipes, and the limits that it sets itself before it works.

The kernel enforces them, so they hold whatever the code does that it runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal

MEMORY_BYTES = 4 << 30
"""Address space of a worker."""
_NOBODY = 65534
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def take_pipes() -> tuple[int, int]:
    """The descriptors of questions and answers.

    Standard input and output become /dev/null: what the code reads or prints must not mix with
    the messages.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM,))
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return source, target


def give_up_rights(parent: int) -> None:
    """Limit memory, write no file, be nobody instead of root, and end with the parent."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError):  # there is already a lower limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    die_with(parent)


def end_after(seconds: float) -> None:
    """Have the kernel end this process after this time, should nobody else do it; 0: never."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


def die_with(parent: int) -> None:
    """Have the kernel KILL this process when its parent dies.

    Call it after the last change of user, because such a change cancels it.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # the parent died before the call
        os._exit(1)
