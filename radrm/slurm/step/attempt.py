"""Run one attempt as the child of the step."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
from importlib import import_module

from radrm.errors import Refused, one_line, plain
from radrm.host.attempts import folder as attempts
from radrm.host.processes.calls import library
from radrm.host.processes.identity import WAKE
from radrm.host.processes.procfs import TOKEN_VARIABLE
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

# ------------------------------------------------------------------
# What has been sent to the step, one signal at a time.
#
# Slurm sends the same signals to all processes of a job at once when it ends it: CONT, then TERM.
# `scancel -b -s USR1` and `--signal=B:USR1@60` reach the step alone, which passes them on.
# `scontrol suspend` sends TSTP, STOP two seconds later, and CONT at the end.


ENDING = frozenset({signal.SIGTERM, signal.SIGINT})
PASSED_ON = frozenset({signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2})
SUSPENDING = frozenset({signal.SIGTSTP, signal.SIGCONT})
_WAITED_FOR = ENDING | PASSED_ON | SUSPENDING | {signal.SIGCHLD, WAKE}


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


_NAME = "radrm-runner"
_BEGIN_S = 30.0
"""Real seconds that a runner may take until the job begins."""
_LONGEST_WHY = 500


def prepare() -> None:
    """Import what runs an attempt, and what C it calls: before there is one, while the step waits
    anyway."""
    import_module("radrm.host.attempts.runner")
    import_module("radrm.host.processes.naming")
    library()


class Gone(Record):
    """The Slurm job ends: `cancelled`, `timeout`, `preempted`, or `returned` to Slurm. `why`: the
    same for users."""

    reason: str
    why: str
    since: dict[str, Any]


class Runner(Record):
    """The runner of one attempt, in `folder`."""

    folder: str
    pid: int

    @property
    def has_ended(self) -> bool:
        """Reap the runner, if it has ended. Ask once only after that."""
        return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid

    def send(self, number: int) -> None:
        """Send it a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def pass_on(self, number: int) -> None:
        """Have it send the job a signal."""
        self.send(signal.SIGRTMIN + number)


def start(folder: str) -> Runner:
    """Start the runner, and wait until the job has begun or could not. Raises `Refused`."""
    launch, why = attempts.read_record(folder, attempts.LAUNCH)
    if launch is None:
        raise Refused(f"the attempt in {folder} cannot be run: {why or 'it is gone'}")
    begun, tell = os.pipe()
    step = os.getpid()
    try:
        pid = os.fork()
        if pid == 0:
            _become_runner(folder, launch["token"], tell, step)
    except OSError as error:
        os.close(begun)
        raise Refused(f"the runner of the job cannot be started: {error.strerror}") from None
    finally:
        os.close(tell)
    try:
        ready, _, _ = select.select([begun], [], [], _BEGIN_S)
        failed = os.read(begun, _LONGEST_WHY).decode(errors="replace").strip() if ready else ""
    finally:
        os.close(begun)
    if failed:
        os.waitpid(pid, 0)
        raise Refused(f"the runner of the job has failed: {plain(failed)}")
    return Runner(folder, pid)


def _become_runner(folder: str, token: str, tell: int, step: int) -> NoReturn:
    """Run an attempt in a fork: an interpreter of its own would cost the job's start tens of
    milliseconds, and so would what is imported here, but for `prepare`. All signals are blocked:
    one that comes early waits until it can be obeyed.

    It ends with its step: then Slurm has ended the job, and the daemon ends what is left of it.
    """
    code = 1
    try:
        from radrm.host.attempts import runner
        from radrm.host.processes.naming import Shown
        from radrm.host.processes.tree import die_with

        die_with(step)
        os.setsid()
        shown = Shown()
        shown.show(f"{_NAME} {folder}", {TOKEN_VARIABLE: token})
        shown.rename(_NAME)
        os.environ[TOKEN_VARIABLE] = token
        null = os.open(os.devnull, os.O_RDWR)
        for fd, own in ((null, 0), (tell, 1), (null, 2)):
            os.dup2(fd, own)
        tell = 1
        code = runner.main(folder)
    except Exception as error:
        with contextlib.suppress(OSError):
            os.write(tell, one_line(error).encode(errors="replace"))
    finally:
        os._exit(code)


def was_terminated(folder: str) -> bool:
    """Return whether the job of an attempt has ended by TERM."""
    end, _ = attempts.read_record(folder, attempts.EXIT)
    by_shell = 128 + signal.SIGTERM
    return end is not None and (end["signal"] == signal.SIGTERM or end["code"] == by_shell)


def close(folder: str, gone: Gone | None) -> None:
    """Say the last word on an attempt. The daemon may be down, and the folder gone."""
    said = {"gone": None, "why": None} if gone is None else {"gone": gone.reason, "why": gone.why}
    since = attempts.now() if gone is None else gone.since
    with contextlib.suppress(OSError):
        attempts.write_record(folder, attempts.OVER, {**said, **since})
