"""What has been sent to the step, one signal at a time.

Slurm sends the same signals to all processes of a job at once when it ends it: CONT, then TERM.
`scancel -b -s USR1` and `--signal=B:USR1@60` reach the step alone, which passes them on.
"""

from __future__ import annotations

import os
import resource
import signal

from radrm.host.attempts.waiting import WAKE

ENDING = frozenset({signal.SIGTERM, signal.SIGINT})
PASSED_ON = frozenset({signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2})
_WAITED_FOR = ENDING | PASSED_ON | {signal.SIGCHLD, WAKE}


def block() -> None:
    """Keep all signals until they are asked for. Before anything else: a WAKE would kill."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would hide exit codes


def wait(seconds: float) -> int | None:
    """Wait for the next signal, at most so long; None: none came."""
    info = signal.sigtimedwait(_WAITED_FOR, max(0.0, seconds))
    return None if info is None else info.si_signo


def die_of(number: int) -> None:
    """End by a signal, so that Slurm sees how the job has ended. Returns if that fails."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
