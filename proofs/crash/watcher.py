"""What a process does at a fault point: note that it was there, and kill where that is aimed at.

Theory of operation. The matrix writes one *shot* into the folder of a home: a fault point, the
how-manieth crossing of it, and whom to kill. Every process looks at that file at each crossing.
The one that takes it away shoots, so a shot kills once. Who is killed is noted first, for the
account must know which attempts lost their runner. The runner imports this file before it starts
a job, so it imports only what Python has loaded anyway.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time

from proofs.crash import KILLED
from radrm.host.processes import cgroups
from radrm.host.processes.identity import send_signal
from radrm.host.processes.procfs import read_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SHOT, FIRED, REACHED, DAEMON = "shot", "fired", "reached", "daemon.pid"
BOOT, POWER = "boot", "power"
PAUSE, _PAUSE_S = "pause", 0.4
"""A process that stands still for so many seconds at a point, instead of being killed."""
DEFECT, ERRORS = "defect", "errors"
MARK = "RADRM_CRASH_PLACE"
"""The variable by which a job's processes are known to be of a home."""
GROUPS = "groups"
"""The control groups that were made."""
_NUMBERS = re.compile("[0-9]+")


def name_of(process: str, point: str, what: str) -> str:
    """The name of a fault point in a process; all drafts have one, and files with a number."""
    what = "draft" if what.endswith(".tmp") else _NUMBERS.sub("N", what)
    return f"{process}: {point} {what}".rstrip()


class Watcher:
    """Watches one process. `serial`: the attempt that it runs, of a runner."""

    def __init__(self, folder: str, process: str, serial: str = "") -> None:
        self._folder = folder
        self._process = process
        self._serial = serial
        self._pid = os.getpid()
        self._seen: set[str] = set()
        self._stamp: tuple[int, int] | None = None
        self._shot: dict[str, Any] = {}
        self._left = 0

    def __call__(self, point: str, what: str) -> None:
        if os.getpid() != self._pid:
            return  # a child that this process has forked
        name = name_of(self._process, point, what)
        if name not in self._seen:
            self._seen.add(name)
            append(self._folder, REACHED, name)
        self._aim()
        if self._shot.get("point") == name:
            self._left -= 1
            if self._left <= 0:
                self._fire()

    def _aim(self) -> None:
        """Read the shot if it is another one than before."""
        path = os.path.join(self._folder, SHOT)
        try:
            found = os.stat(path)
            stamp = found.st_ino, found.st_mtime_ns
            if stamp == self._stamp:
                return
            with open(path) as file:
                self._shot = json.load(file)
        except FileNotFoundError:
            self._stamp, self._shot = None, {}
            return
        self._stamp, self._left = stamp, self._shot["nth"]

    def _copy(self) -> None:
        """Copy the home as a power failure would leave it now."""
        from proofs.crash import synced  # here, for few processes need it

        stopped = stop_all(self._folder)
        try:
            synced.copy_all(self._folder)
        finally:
            _signal(stopped, signal.SIGCONT)

    def _fire(self) -> None:
        shot, self._shot = self._shot, {}
        try:
            os.rename(os.path.join(self._folder, SHOT), os.path.join(self._folder, FIRED))
        except FileNotFoundError:
            return  # another process was first
        if shot["victims"] == [POWER]:
            try:
                self._copy()
            except Exception as error:  # radrm must not see it
                append(self._folder, ERRORS, f"{type(error).__name__}: {error}")
            return
        for victim in shot["victims"]:
            if victim == "daemon":
                _kill(int(_read(os.path.join(self._folder, DAEMON))))
            elif victim == "forker":
                shoot_forker(self._folder)
            elif victim in ("runners", "jobs", "workers"):
                shoot_attempts(self._folder, victim)
        if PAUSE in shot["victims"]:
            time.sleep(_PAUSE_S)
            return
        if self._serial:
            append(self._folder, KILLED, f"runners {self._serial}")
        os.kill(self._pid, signal.SIGKILL)


def stop_all(folder: str) -> set[int]:
    """Stop the daemon, the runners and the jobs of a home, but this process. Returns their pids."""
    stopped: set[int] = set()
    while more := _processes(folder) - stopped - {os.getpid()}:  # they may have forked meanwhile
        _signal(more, signal.SIGSTOP)
        stopped |= more
    return stopped


def _processes(folder: str) -> set[int]:
    mark, job = os.path.join(folder, "home", "attempts", ""), f"{MARK}={folder}\0"
    found = {int(_read(os.path.join(folder, DAEMON)))}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in _read(f"/proc/{name}/cmdline") or job in _read(f"/proc/{name}/environ"):
                found.add(int(name))
        except (OSError, ValueError):
            continue  # it has ended meanwhile
    return found


def set_boot(folder: str) -> None:
    """Have this process believe in the boot that a file of the home names, if there is one."""
    path = os.path.join(folder, BOOT)
    if os.path.exists(path):
        name = _read(path)
        for module in [m for n, m in sys.modules.items() if n.startswith("radrm.")]:
            if hasattr(module, "boot_id"):
                module.boot_id = lambda: name


def note_groups(folder: str) -> None:
    """Have each control group that this process makes noted in a file of the home."""
    make = cgroups.make

    def noted(path: str) -> bool:
        append(folder, GROUPS, path)
        return make(path)

    cgroups.make = noted


def shoot_attempts(folder: str, victim: str) -> list[str]:
    """Kill all runners of a home, the main processes of its jobs, or of each elastic job the newest
    worker. Returns the serials."""
    record = "claim" if victim == "runners" else "start.json"
    attempts, shot = os.path.join(folder, "home", "attempts"), []
    for serial in os.listdir(attempts):
        try:
            fields = json.loads(_read(os.path.join(attempts, serial, record)))
        except (OSError, ValueError):
            continue  # it has ended meanwhile, or its claim is not written yet
        ended = os.path.exists(os.path.join(attempts, serial, "exit.json"))
        if ended or fields.get("by", "runner") != "runner":
            continue
        if victim == "workers" and not (fields := _newest_worker(fields["pid"])):
            continue
        append(folder, KILLED, f"{'runners' if victim == 'runners' else 'jobs'} {serial}")
        if send_signal(fields["pid"], fields["start_ticks"], signal.SIGKILL):
            shot.append(serial)
    return shot


def shoot_forker(folder: str) -> None:
    """Kill the forkers of a home. No attempt loses anything by that, so it is not noted."""
    its = os.path.join(folder, "home", "attempts")
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = _read(f"/proc/{name}/cmdline").rstrip("\0")
        except OSError:
            continue  # it has ended meanwhile
        if "forker" in line and line.endswith(its):
            _kill(int(name))


def _newest_worker(radrun: int) -> dict[str, int]:
    """The newest process that a `radrun` has started; empty where this is none."""
    found: dict[str, int] = {}
    try:
        if "radrm.elastic.radrun" in _read(f"/proc/{radrun}/cmdline"):
            for pid in sorted(map(int, filter(str.isdigit, os.listdir("/proc")))):
                stat = read_stat(pid)
                if stat is not None and stat.parent == radrun:
                    found = {"pid": pid, "start_ticks": stat.start_ticks}
    except OSError:
        pass
    return found


def append(folder: str, name: str, line: str) -> None:
    """Append a line to a file of a home, in one write."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    fd = os.open(os.path.join(folder, name), flags, 0o600)
    os.write(fd, f"{line}\n".encode())
    os.close(fd)


def _read(path: str) -> str:
    with open(path, errors="replace") as file:
        return file.read()


def _kill(pid: int) -> None:
    _signal({pid}, signal.SIGKILL)


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
