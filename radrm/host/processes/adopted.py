"""Watch a process that radrm did not start, as its job: a program.

    python -I -S adopted.py PID START BOOT SECONDS GRACE

Theory of operation. `radrm adopt` books a process that runs. Its attempt has this program as its
only process, started by the runner as the job's user. It ends when the process does (0), or after
SECONDS (`OVER`; 0: no limit); then the process runs on. Only a user's cancel sends it TERM: then it
ends the process and its descendants as a runner ends a job, with the rights of its user: TERM in
waves (`stop.py`), KILL shortly before GRACE seconds are over, because then it is killed itself.

A process is named by pid, start time and boot id, and followed by a pidfd, so nobody can pass
another process off as it. If this program is killed, the process runs on: radrm did not start it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

if not __package__:
    # Run by its path, isolated: the package that it belongs to has to be found.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from radrm.host.processes.identity import Identity, alive, open_pidfd
from radrm.host.processes.procfs import read_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from radrm.host.processes.procfs import Stat

ENDED, OVER, UNSEEN = 0, 3, 4
"""Exit codes: the process has ended; its time is over; it cannot be watched. The core reads them
(`core/lifecycle/adopted.py`)."""
_LONGEST_WAIT_S = 3600.0
_KILL_PART = 0.8
"""The part of the grace time after which the process gets KILL."""
_KILL_S = 2.0
_LOOK_S = 0.05


class Watched:
    """A process to be watched, for `for_s` seconds of the launcher's clock; None: until its end."""

    __slots__ = ("for_s", "identity")

    def __init__(self, identity: Identity, for_s: float | None = None) -> None:
        self.identity = identity
        self.for_s = for_s

    def as_fields(self) -> dict[str, Any]:
        """What the launch record says of it."""
        its = self.identity
        return {"pid": its.pid, "start_ticks": its.start_ticks, "boot_id": its.boot_id}


def adopted_by(launch: Mapping[str, Any]) -> Identity | None:
    """The process that an attempt watches, by its launch record; None: it watches none."""
    found = launch.get("adopts")
    return None if found is None else Identity(**found)


def watcher_command(watched: Watched, for_s: float | None, grace_s: float) -> list[str]:
    """The command that watches a process. Both times are real seconds."""
    its = watched.identity
    words = its.pid, its.start_ticks, its.boot_id, for_s or 0, grace_s
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), *map(str, words)]


def main(words: Sequence[str]) -> int:
    """Watch the process. Returns the exit status."""
    identity = Identity(int(words[0]), int(words[1]), words[2])
    for_s, grace_s = float(words[3]), float(words[4])
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = open_pidfd(identity)
    except OSError as error:
        print(f"process {identity.pid} cannot be watched: {error.strerror}", file=sys.stderr)
        return UNSEEN
    if process is None:
        return ENDED
    until_s = _boot_s() + for_s if for_s else float("inf")
    poller = select.poll()
    poller.register(process, select.POLLIN)
    poller.register(awake, select.POLLIN)
    while True:
        left_s = until_s - _boot_s()
        if left_s <= 0:
            return OVER
        ready = [fd for fd, _ in poller.poll(1 + 1000 * min(left_s, _LONGEST_WAIT_S))]
        if process in ready:
            return ENDED
        if awake in ready:
            _end(identity, grace_s)
            return ENDED


def _end(identity: Identity, grace_s: float) -> None:
    """End the process and its descendants."""
    # Imported here: most watchers end without it.
    from radrm.host.processes.stop import Stop
    from radrm.host.processes.tree import attempt_stats, kill_tree

    known = {identity.pid: identity.start_ticks}

    def find() -> dict[int, Stat]:
        """Its processes that live. A descendant is known also when its parent has ended."""
        stats = {pid: read_stat(pid) for pid in known}
        same = [p for p, stat in stats.items() if stat and stat.start_ticks == known[p]]
        found = attempt_stats(None, None, same)
        known.update({pid: stat.start_ticks for pid, stat in found.items()})
        return found

    until_s = _boot_s() + grace_s * _KILL_PART
    stop = Stop(find, grace_s * _KILL_PART, min(_KILL_S, grace_s / 4), _boot_s)
    while (left_s := until_s - _boot_s()) > 0:
        stop.look()
        # Only the stop looks at all processes of the machine.
        if not any(map(alive, [Identity(*each, identity.boot_id) for each in known.items()])):
            break
        time.sleep(min(left_s, _LOOK_S))
    left = find()
    if left:
        kill_tree(None, None, left, seconds=min(_KILL_S, grace_s * (1 - _KILL_PART)))


def _boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
