"""Where the tracer's process begins, and who sees to its end.

    python -I -S start_tracer.py OUTPUT    (one line of JSON on standard input: what to run)
    python -I -S start_tracer.py           (says on standard output what this machine allows)

OUTPUT is an open descriptor, to which the tracer will write, and to which goes the line
on what went wrong before there was a tracer. This process stays as the tracer's parent:
when the tracer has ended, when its time is over, and when standard input is closed (as it
is when the daemon dies), it ends all that the tracer has started, and itself as the
tracer ended. Only its child becomes the user, and then the user's Python: nothing of theirs
is opened before. Should this process be killed, the kernel ends the tracer: at once, or
where the user's code has prevented that, when its time is over.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import sys
import time
from functools import partial

if not __package__:
    # Run by its path, isolated: the package that it belongs to has to be found.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from radrm.host.attempts import cgroups
from radrm.host.attempts.job_process import CannotStart, drop_rights, enter, execute, reset_signals
from radrm.host.attempts.processes import identify, kill_tree
from radrm.host.estimation import confine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from radrm.host.attempts.folder import Fields

MAX_LAUNCH = 64 << 20
SPARE_S = 2.0
"""After its time the tracer is ended by the daemon, which can say why; after so many seconds
more by its parent, and then by the kernel."""
NOT_HERE, IN_PLACE = b"-", b"+"
_SAID_NO = 3
PROBE = (sys.executable, "-I", "-S", __file__)
"""The command that says what is possible here."""


def main(output: int) -> NoReturn:
    launch = json.loads(_first_line(0))
    confine.become_reaper()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it may end by the tracer's signal
    tracer = _start(launch, output)
    os.close(output)
    status = _watch(tracer, time.monotonic() + launch["limit_s"] + SPARE_S)
    kill_tree(None, identify(os.getpid()), (), launch["cgroup"])
    while status is None:
        pid, code = os.waitpid(-1, 0)
        status = code if pid == tracer else None
    if os.WIFSIGNALED(status):
        reset_signals()
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _first_line(source: int) -> bytes:
    """Standard input stays open: its end is the daemon's."""
    found = bytearray()
    while not found.endswith(b"\n") and len(found) < MAX_LAUNCH:
        part = os.read(source, 1 << 16)
        if not part:
            os._exit(1)
        found += part
    return bytes(found)


# ------------------------------------------------------------------ the parent


def _start(launch: Fields, output: int) -> int:
    """The tracer's pid, in the best place that this machine allows."""
    for flags in confine.WAYS:
        pid = _fork_into(flags, partial(_become_tracer, launch, output, flags))
        if pid:
            return pid
    raise AssertionError("the last way asks for nothing")


def _fork_into(flags: int, then: Callable[[], object]) -> int:
    """A child in new namespaces that does `then`; 0 where there is none of the kind."""
    told, tell = os.pipe()
    wait, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(told)
            os.close(go)
            os.write(tell, IN_PLACE if confine.unshare(flags) else NOT_HERE)
            if os.read(wait, 1) == IN_PLACE:
                then()
        finally:
            os._exit(_SAID_NO)
    os.close(tell)
    os.close(wait)
    try:
        placed = os.read(told, 1) == IN_PLACE
        if placed and flags & confine.NEW_USER:
            confine.map_users(pid)
        if placed:
            os.write(go, IN_PLACE)
            return pid
    except OSError:
        pass
    finally:
        os.close(told)
        os.close(go)
    os.waitpid(pid, 0)  # without a word it ends by itself
    return 0


def _watch(tracer: int, until: float) -> int | None:
    """The tracer's wait status once it has ended; None when its time is over before."""
    ended = os.pidfd_open(tracer)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(0, select.POLLIN)
    while (left := until - time.monotonic()) > 0:
        ready = [fd for fd, _ in poll.poll(min(left, 1.0) * 1000)]
        if ended in ready:
            return os.waitpid(tracer, 0)[1]
        if ready:
            return None  # nothing more is sent: the daemon is gone, or wants no more
    return None


# ------------------------------------------------------------------ the tracer


def _become_tracer(launch: Fields, output: int, flags: int) -> None:
    parent = os.getppid()
    try:
        os.setsid()
        reset_signals()
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.nice(10)  # jobs come first
        if launch["cgroup"] is not None:
            cgroups.join(launch["cgroup"], os.getpid())
        if flags & confine.NEW_NET:
            confine.open_loopback()
        uid = os.geteuid() if launch["uid"] is None else launch["uid"]
        seconds = launch["limit_s"] + 2 * SPARE_S
        confine.limit(uid, launch["memory_mib"], seconds, bool(flags & confine.NEW_USER))
        drop_rights(launch)
        os.umask(launch["umask"])
        confine.die_with(parent)
        enter(launch["cwd"])
        os.set_inheritable(output, True)
        execute(launch, None)
    except (CannotStart, OSError, ValueError) as error:
        os.write(output, json.dumps({"error": str(error)}).encode())


# ------------------------------------------------------------------ what is possible here


def probe() -> None:
    """Print the flags of the best way, as `radrm doctor` reads them."""
    for flags in confine.WAYS:
        if pid := _fork_into(flags, lambda: os._exit(0)):
            os.waitpid(pid, 0)
            print(flags)
            return


if __name__ == "__main__":
    if len(sys.argv) > 1:
        with contextlib.suppress(KeyboardInterrupt):
            main(int(sys.argv[1]))
    probe()
