"""The tracer's parent: starts the tracer, and ends all its processes.

    python -I -S start_tracer.py OUTPUT    (one line of JSON on standard input: what to run)
    python -I -S start_tracer.py           (prints the best namespaces that this machine allows)

OUTPUT is an open descriptor. The tracer writes its document there. If the tracer cannot start, the
forked child writes the error there instead.

Theory of operation:

- **Rights.** Only the forked child becomes the user, and it opens the user's files only after that.
  The parent keeps the rights to end all processes.
- **End.** The parent waits for the first of three things: the tracer ends, its time is over, or
  standard input closes (the daemon closes it, or dies). Then it ends all processes that the
  tracer started, and exits as the tracer did.
- **A killed parent.** The kernel then ends the tracer: at once, or if the user's code has
  prevented that, at the end of its time.
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
    # With `-I` Python adds no folder of ours to `sys.path`; the package is three folders up.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from radrm.host.attempts.job_process import CannotStart, drop_rights, reset_signals
from radrm.host.estimation import collecting, confine
from radrm.host.processes import cgroups
from radrm.host.processes.identity import identify
from radrm.host.processes.tree import kill_tree
from radrm.host.workers.child import die_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from radrm.host.attempts.folder import Fields

MAX_LAUNCH = 64 << 20
SPARE_S = 2.0
"""The daemon ends the tracer at the limit, because it can tell the user why. The parent ends it
this many seconds later, and the kernel after as many again."""
NOT_HERE, IN_PLACE = b"-", b"+"
_EXIT_NOT_STARTED = 3
PROBE = (sys.executable, "-I", "-S", __file__)
"""The command that prints the best namespaces that this machine allows."""


def main(output: int) -> NoReturn:
    launch = json.loads(_first_line(0))
    confine.become_reaper()
    # This process ends itself with the tracer's signal; that must write no core file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
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
    """The first line of `source`, which stays open: the daemon's death closes it."""
    found = bytearray()
    while not found.endswith(b"\n") and len(found) < MAX_LAUNCH:
        part = os.read(source, 1 << 16)
        if not part:
            os._exit(1)
        found += part
    return bytes(found)


# ------------------------------------------------------------------ the parent


def _start(launch: Fields, output: int) -> int:
    """Start the tracer in the best namespaces that this machine allows; return its pid."""
    for flags in confine.WAYS:
        pid = _fork_into(flags, partial(_become_tracer, launch, output, flags))
        if pid:
            return pid
    raise AssertionError("the last entry of confine.WAYS needs no namespace")


def _fork_into(flags: int, then: Callable[[], object]) -> int:
    """Fork a child in new namespaces that calls `then`; 0 if this machine refuses them.

    The child reports through one pipe, and waits on the other until its users are mapped.
    """
    report, report_end = os.pipe()
    wait, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(report)
            os.close(go)
            os.write(report_end, IN_PLACE if confine.unshare(flags) else NOT_HERE)
            if os.read(wait, 1) == IN_PLACE:
                then()
        finally:
            os._exit(_EXIT_NOT_STARTED)
    os.close(report_end)
    os.close(wait)
    try:
        placed = os.read(report, 1) == IN_PLACE
        if placed and flags & confine.NEW_USER:
            confine.map_users(pid)
        if placed:
            os.write(go, IN_PLACE)
            return pid
    except OSError:
        pass
    finally:
        os.close(report)
        os.close(go)
    os.waitpid(pid, 0)  # the closed pipe ends it
    return 0


def _watch(tracer: int, until: float) -> int | None:
    """The tracer's wait status; None if it must be ended first."""
    ended = os.pidfd_open(tracer)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(0, select.POLLIN)
    while (left := until - time.monotonic()) > 0:
        ready = [fd for fd, _ in poll.poll(min(left, 1.0) * 1000)]
        if ended in ready:
            return os.waitpid(tracer, 0)[1]
        if ready:
            return None  # standard input is closed: the daemon ends the trace, or is dead
    return None


# ------------------------------------------------------------------ the tracer


def _become_tracer(launch: Fields, output: int, flags: int) -> None:
    """Limit this process, become the user, and execute the tracer.

    Joining the control group needs the parent's rights, so it comes before `drop_rights`. A change
    of user cancels `die_with`, so that comes after.
    """
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
        die_with(parent)
        until = time.monotonic() + launch["limit_s"] - SPARE_S
        folder = launch["environment"]["RADRM_TRACE_FOLDER"]
        os._exit(collecting.run(launch, folder, output, until))
    except (CannotStart, OSError, ValueError) as error:
        collecting.write_document(output, collecting.failure(str(error)))


# ------------------------------------------------------------------ what is possible here


def probe() -> None:
    """Print the flags of the best namespaces. `radrm doctor` reads them."""
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
