"""The parent of a trace: starts it in its sandbox, and ends all its processes.

    python -I -S start_tracer.py OUTPUT    (one line of JSON on standard input: what to run)
    python -I -S start_tracer.py           (prints what this machine allows: see `probe`)

OUTPUT is an open descriptor. The trace's document is written there, or an error in its place.

Theory of operation:

- **Processes.** The parent forks a child that moves into namespaces of its own, and forks the first
  process of the trace there: `init`. It limits itself, becomes the user, makes the sandbox, gives
  up all rights, and starts the command (`collecting.py`). The child in between ends.
- **Rights.** A root daemon's init has the right to mount (on the machine, so no user namespace
  stands between the user and files of other groups) until the sandbox is made. It then moves into a
  user namespace, where the kernel allows that: processes are counted apart there. Another daemon's
  init gets its rights in a user namespace, at the beginning.
- **End.** The parent waits for the first of three things: init ends, its time is over, or standard
  input closes (the daemon closes it, or dies). Then it ends all processes of the trace. When init
  ends, the kernel ends all others of its pid namespace. The exit code is 0 where the document says
  how the trace went, and NO_SANDBOX where nothing of the user's was run.
- **A killed parent.** The kernel then ends init. If the parent was killed before that was asked of
  the kernel, init sees the end of a pipe.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import resource
import select
import signal
import sys
import time

if not __package__:
    # With `-I` Python adds no folder of ours to `sys.path`; the package is three folders up.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from radrm.host.attempts.job_process import CannotStart, drop_rights, reset_signals
from radrm.host.estimation import call_filter, collecting, confine, kernel, sandbox
from radrm.host.processes import cgroups
from radrm.host.processes.identity import identify
from radrm.host.processes.procfs import mounts_of
from radrm.host.processes.tree import die_with, kill_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from radrm.host.attempts.folder import Fields

MAX_LAUNCH = 64 << 20
SPARE_S = 2.0
"""Init gives up at most this many seconds before the trace's limit, because it can tell the user
why. The daemon ends the trace at the limit, and the parent this long after it."""
NO_SANDBOX = 3
"""The exit code where the machine allows no sandbox."""
AUTOMATIC_S = 10.0
"""Seconds that file systems have to be mounted automatically."""
_MOST_REPORT = 4096
_PLACED, _MAP = "placed", "map"
PROBE = (sys.executable, "-I", "-S", __file__)
"""The command that prints what this machine allows."""
APART, TOGETHER = "apart", "together"
"""What `probe` prints where traces are possible: how their processes are counted."""


def main(output: int) -> NoReturn:
    os._exit(run(json.loads(_first_line(0)), output))


def run(launch: Fields, output: int) -> int:
    """Trace what `launch` says; its document goes to `output`. Return the exit code."""
    os.set_inheritable(output, False)  # the command must not write to it
    confine.become_reaper()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    until = time.monotonic() + collecting.CLOCK_TIMES * launch["limit_s"]
    spare_s = min(SPARE_S, launch["limit_s"] / 4)
    try:
        _mount_automatically(launch)
        init, _ = _Start(launch, output, until - spare_s).begin()
    except (OSError, sandbox.Refused) as error:
        collecting.write_document(output, collecting.failure(str(error)))
        return NO_SANDBOX
    os.close(output)
    status = _watch(init, until + SPARE_S)
    kill_tree(None, identify(os.getpid()), (), launch["cgroup"])
    while status is None:
        pid, code = os.waitpid(-1, 0)
        status = code if pid == init else None
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0


def _first_line(source: int) -> bytes:
    """The first line of `source`, which stays open: the daemon's death closes it."""
    found = bytearray()
    while not found.endswith(b"\n") and len(found) < MAX_LAUNCH:
        part = os.read(source, 1 << 16)
        if not part:
            os._exit(1)
        found += part
    return bytes(found)


def _watch(init: int, until: float) -> int | None:
    """Init's wait status; None if it must be ended first."""
    ended = os.pidfd_open(init)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(0, select.POLLIN)
    while (left := until - time.monotonic()) > 0:
        ready = [fd for fd, _ in poll.poll(min(left, 1.0) * 1000)]
        if ended in ready:
            return os.waitpid(init, 0)[1]
        if ready:
            return None  # standard input is closed: the daemon ends the trace, or is dead
    return None


def _mount_automatically(launch: Fields) -> None:
    """Have the job's folders mounted where that happens when they are looked at: in the trace's
    own namespace nobody would do it."""
    if not any(kind == "autofs" for _, _, kind, _ in mounts_of()):
        return
    child = os.fork()
    if child == 0:
        try:
            drop_rights(launch)
            for path in itertools.chain(*sandbox.paths_of(launch)):
                with contextlib.suppress(OSError):
                    os.stat(path)
        finally:
            os._exit(0)
    poll = select.poll()
    poll.register(os.pidfd_open(child), select.POLLIN)
    if not poll.poll(AUTOMATIC_S * 1000):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


# ------------------------------------------------------------------ the start, in three processes


class _Start:
    """The start of a trace. The parent and the others speak by two pipes, in words of one line.

    Only the parent has the writing end of `go`, so the pipe closes, and init ends, when the parent
    dies.
    """

    def __init__(self, launch: Fields, output: int | None, until: float) -> None:
        self._launch = launch
        self._output = output
        self._until = until
        self._report, self._report_end = os.pipe()
        self._wait, self._go = os.pipe()

    def begin(self) -> tuple[int, str]:
        """Start init; return its pid and its last word. Raises `Refused`."""
        why = ""
        for flags in confine.WAYS:
            child = os.fork()
            if child == 0:
                self._as_child(flags)
            word = self._heard()
            if word == _PLACED and flags & kernel.NEW_USER:
                word = self._mapped(child)
            os.write(self._go, b"+" if word == _PLACED else b"-")
            init = self._heard() if word == _PLACED else ""
            os.waitpid(child, 0)
            if init.isdigit():
                return int(init), self._let_go_on(int(init))
            why = word or init
        raise sandbox.Refused(confine.cause(why))

    def _let_go_on(self, init: int) -> str:
        """What init says when it is confined, or what keeps it from that."""
        os.close(self._report_end)
        os.write(self._go, b"+")
        word = self._heard()
        if word == _MAP:
            os.write(self._go, b"+" if self._mapped(init) == _PLACED else b"-")
            word = self._heard()
        return word

    def _mapped(self, pid: int) -> str:
        try:
            confine.map_users(pid)
        except OSError as error:
            return str(error.strerror)
        return _PLACED

    def _heard(self) -> str:
        """The next line of a report; empty if none comes in time."""
        poll, line = select.poll(), b""
        poll.register(self._report, select.POLLIN)
        while not line.endswith(b"\n") and len(line) < _MOST_REPORT:
            left_s = max(self._until - time.monotonic(), 0.0)
            part = os.read(self._report, 1) if poll.poll(left_s * 1000) else b""
            if not part:
                break
            line += part
        return line.decode("utf-8", "replace").strip()

    def _say(self, word: str) -> None:
        os.write(self._report_end, word.encode() + b"\n")

    # -------------------------------------------------------------- the child in between

    def _as_child(self, flags: int) -> NoReturn:
        """Move into namespaces, and fork init there."""
        try:
            os.close(self._go)
            os.close(self._report)
            os.setsid()
            reset_signals()
            if self._launch["cgroup"] is not None:
                cgroups.join(self._launch["cgroup"], os.getpid())
            try:
                kernel.unshare(flags)
                self._say(_PLACED)
            except OSError as error:
                self._say(str(error.strerror))
            if os.read(self._wait, 1) == b"+":
                init = os.fork()
                if init == 0:
                    self._as_init(bool(flags & kernel.NEW_USER))
                self._say(str(init))
        finally:
            os._exit(NO_SANDBOX)

    # -------------------------------------------------------------- init

    def _as_init(self, user_namespace: bool) -> NoReturn:
        """Make the sandbox, give up all rights, and run the command."""
        code = NO_SANDBOX
        try:
            if os.read(self._wait, 1) != b"+":  # the child in between is gone, or the parent is
                os._exit(code)
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.nice(10)  # jobs come first
            apart = self._confined(user_namespace)
            self._say(APART if apart else TOGETHER)
            os.close(self._report_end)
            if self._output is not None:
                collecting.run(self._launch, self._output, self._wait, self._until)
            code = 0
        except (CannotStart, OSError, ValueError, sandbox.Refused) as error:
            line = str(error).replace("\n", " ")
            if self._output is not None:
                collecting.write_document(self._output, collecting.failure(line))
            self._say(line)
        finally:
            os._exit(code)

    def _confined(self, user_namespace: bool) -> bool:
        """Confine this process. True if its processes are counted apart from the user's others."""
        launch = self._launch
        memory_bytes = launch["memory_mib"] << 20
        uid = os.geteuid() if launch["uid"] is None else launch["uid"]
        confine.open_loopback()
        kernel.keep_capabilities()
        drop_rights(launch)
        launch["failed"] = sandbox.made(launch, user_namespace, memory_bytes // 2)
        kernel.set_effective(None)
        apart = user_namespace or self._user_namespace()
        confine.limit(uid, memory_bytes, launch["limit_s"], apart)
        kernel.give_up(sandbox.OF_ROOT if uid == 0 and apart else 0)
        kernel.hide()
        call_filter.install()
        die_with(0)  # in another pid namespace, the parent is process 0
        return apart

    def _user_namespace(self) -> bool:
        """Move into a user namespace in which all users are themselves."""
        try:
            kernel.unshare(kernel.NEW_USER)
        except OSError:
            return False
        self._say(_MAP)
        return os.read(self._wait, 1) == b"+"


# ------------------------------------------------------------------ what is possible here


def probe() -> None:
    """Print APART or TOGETHER where traces are possible, or why they are not, in one line."""
    launch: Fields = {
        "argv": None, "script": None, "interpreter": None, "reads": [], "cwd": "/",
        "factory": True, "environment": {}, "uid": None, "cgroup": None, "memory_mib": 64,
        "limit_s": 10.0,
    }  # fmt: skip
    try:
        print(_Start(launch, None, time.monotonic() + launch["limit_s"]).begin()[1])
    except sandbox.Refused as error:
        print(error)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        with contextlib.suppress(KeyboardInterrupt):
            main(int(sys.argv[1]))
    probe()
