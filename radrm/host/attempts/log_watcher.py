"""The process that reads a job's progress from its log or file, and reports it as the job would.

It also tells how long the logs of a job with `--silent-limit` have not changed.

Theory of operation. The runner forks this process as the job's user, in the job's control groups:
so it opens what the user may open, and an endless regular expression costs its owner alone. It is
no process of the job. The runner ends it when the main process has ended, after a last look; it
dies with the runner, too. If it is killed or gives up, the job runs on, and its progress stands
still. A line that takes too long to search ends it, and the job's log says so.

    file rotated    another file has the path: it is read from its beginning
    file truncated  it is shorter than what was read: it is read from its beginning
    too much text   only the last part is read

Silence is told only as long as all logs can be seen, and from half of the limit on. A log that was
renamed counts on, beside the new one of its name: the job may write to either.

Source of what it sends: `radrm/report.py`.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import select
import signal
import socket
import stat
import time

from radrm.host.attempts import job_process
from radrm.host.processes import cgroups
from radrm.host.processes.tree import die_with
from radrm.progress_bars import Epochs
from radrm.progress_lines import AUTO, Finder, Lines, progress_pattern
from radrm.report import Reporter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

    from radrm.host.attempts.folder import Fields

LOOK_EVERY_S = 1.0
MOST_BYTES = 1 << 18
"""Bytes of one file that one look reads."""
MOST_SEARCH_S = 2.0
"""CPU seconds of one look at one file."""
_MOST_MEMORY = 1 << 30
_MOST_WAIT_S = 0.5
_NICE = 10


class Source:
    """One file that grows. What was in it when the job began is not read."""

    def __init__(
        self, path: str, pattern: re.Pattern[str] | None, epochs: Epochs | None = None
    ) -> None:
        self._path = path
        self._finder = Finder(pattern, epochs)
        self._lines = Lines()
        self._file = self._identity()
        self._at = self._file[1] if self._file is not None else 0

    def _identity(self) -> tuple[tuple[int, int], int] | None:
        """The file's device and number, and its size; None without a regular file."""
        try:
            found = os.stat(self._path, follow_symlinks=False)
        except OSError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        return (found.st_dev, found.st_ino), found.st_size

    def look(self, last: bool = False) -> dict[str, float]:
        """Return what the new lines tell, the last of each key. `last`: also an unfinished line."""
        found: dict[str, float] = {}
        now = self._identity()
        if now is None:
            return found
        rotated = self._file is not None and now[0] != self._file[0]
        if rotated or now[1] < self._at:
            self._at, self._lines = 0, Lines()
        self._file = now
        if now[1] > self._at:
            for line in self._lines.feed(self._read(now[1])):
                found.update(self._finder.find(line))
        if last:
            found.update(self._finder.find(self._lines.rest()))
        return found

    def _read(self, size: int) -> bytes:
        """Read from where the last look ended, at most the last part of the file."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            fd = os.open(self._path, flags)
        except OSError:
            return b""
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return b""
            data = os.pread(fd, MOST_BYTES, max(self._at, size - MOST_BYTES))
        except OSError:
            return b""
        finally:
            os.close(fd)
        self._at = max(self._at, size - MOST_BYTES) + len(data)
        return data


class Silence:
    """How long no log of a job has changed, nor the file of its progress.

    `limit_s`: the real seconds of the job's limit.
    """

    def __init__(self, logs: list[str], file: str | None, limit_s: float) -> None:
        self._logs = logs
        self._paths = [*logs, *([] if file is None else [file])]
        self._open: dict[str, list[int]] = {path: [] for path in self._paths}
        self._seen: dict[int, tuple[int, int]] = {}
        """The size and time of change of each open file, by descriptor."""
        self._since_s = time.monotonic()
        self._limit_s = limit_s
        self._told = False
        self.every_s = min(_MOST_PAUSE_S, max(_LEAST_PAUSE_S, limit_s / 20))
        """Seconds between two looks."""

    def look(self) -> float | None:
        """Return the seconds to tell; None if there is nothing to tell."""
        before, self._seen = self._seen, {}
        for path in self._paths:
            self._open_if_new(path)
            for fd in self._open[path]:
                found = os.fstat(fd)
                self._seen[fd] = found.st_size, found.st_mtime_ns
        if self._seen != before:
            self._since_s = time.monotonic()
        silent_s = time.monotonic() - self._since_s
        known = all(self._open[path] for path in self._logs)
        tells = known and silent_s >= self._limit_s / 2
        # Once more when it is over: it has been heard.
        was, self._told = self._told, tells
        return silent_s if tells else 0.0 if was else None

    def _open_if_new(self, path: str) -> None:
        mine = self._open[path]
        with contextlib.suppress(OSError):
            found = os.stat(path, follow_symlinks=False)
            known = [os.fstat(fd) for fd in mine]
            if any((each.st_dev, each.st_ino) == (found.st_dev, found.st_ino) for each in known):
                return
            if not stat.S_ISREG(found.st_mode):
                return
            mine.append(os.open(path, _READ))
            if len(mine) > _MOST_FILES:
                os.close(mine.pop(0))


_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LEAST_PAUSE_S, _MOST_PAUSE_S = 0.1, 30.0
_MOST_FILES = 4
"""Files of one name that are kept open: a log may be renamed again and again."""


class _TooSlow(Exception):
    """A look has used more CPU time than it may."""


def sources(launch: Fields) -> list[Source]:
    """What the options of a job name. Raises `ValueError` for a wrong pattern."""
    asked = launch.get("progress")
    if asked is None:
        return []
    pattern = progress_pattern(asked["pattern"] or AUTO)
    names = [asked["file"]] if asked["file"] else [launch["stdout"], launch["stderr"]]
    paths = dict.fromkeys(os.path.join(launch["cwd"], name) for name in names)
    epochs = Epochs()
    return [Source(path, pattern, epochs) for path in paths]


def silence(launch: Fields) -> Silence | None:
    """The files of a job with a silent limit; None for another job."""
    limit_s, asked = launch.get("silent_s"), launch.get("progress") or {}
    if not limit_s:
        return None
    names = [launch["stdout"], launch["stderr"], asked.get("file")]
    paths = [None if name is None else os.path.join(launch["cwd"], name) for name in names]
    logs = list(dict.fromkeys(path for path in paths[:2] if path is not None))
    return Silence(logs, paths[2], float(limit_s))


def watch(its: list[Source], quiet: Silence | None = None) -> None:
    """Look every second, until TERM comes. Raises `_TooSlow`, `MemoryError`."""
    report = Reporter()
    saved = None
    last = False
    pauses = [LOOK_EVERY_S] * bool(its) + ([] if quiet is None else [quiet.every_s])
    quiet_at = 0.0
    while not last:
        last = signal.sigtimedwait({signal.SIGTERM}, min(pauses)) is not None
        if quiet is not None and time.monotonic() >= quiet_at:
            quiet_at = time.monotonic() + quiet.every_s
            _tell(quiet.look())
        found: dict[str, float] = {}
        for source in its:
            signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SEARCH_S)
            found.update(source.look(last))
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        step = found.pop("saved", saved)
        if found:
            report.progress(**found)
        if step is not None and step != saved:
            saved = step
            report.saved(step)
    report.close()


def _tell(silent_s: float | None) -> None:
    """Send for how long the logs have not changed; the next look says it again."""
    address = os.environ.get("RADRM_PROGRESS")
    if silent_s is None or not address:
        return
    kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, kind) as sender:
        sender.sendto(b"silent=%.1f" % silent_s, address)


def start(launch: Fields, groups: list[str], runner: int) -> int:
    """Fork the watcher of a job that has not begun; return its pid, or 0 if the job has none.

    It returns when the watcher has seen what the logs hold already, or soon after: a file system
    that hangs keeps no job from starting.
    """
    if not isinstance(launch.get("progress"), dict) and not launch.get("silent_s"):
        return 0
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(launch, groups, runner, tell)
    os.close(tell)
    select.select([ready], [], [], _MOST_WAIT_S)
    os.close(ready)
    return pid


def _become(launch: Fields, groups: list[str], runner: int, tell: int) -> NoReturn:
    try:
        # The runner's lock says that the runner lives, so nothing of the runner's stays open.
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        os.dup2(tell, 3)
        os.closerange(4, 4096)
        for group in groups:
            cgroups.join(group, os.getpid())
        job_process.reset_signals()
        # Blocked, not handled: a request to save goes to processes that handle its signal.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        die_with(runner)  # now, too: a user may not be allowed to read what it imports
        os.nice(_NICE)
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        job_process.drop_rights(launch)
        die_with(runner)
        for name in ("RADRM_PROGRESS", "RADRM_CHECKPOINT_DIR", "RADRM_JOB_ID"):
            if name in launch["environment"]:
                os.environ[name] = launch["environment"][name]
        signal.signal(signal.SIGVTALRM, _too_slow)
        quiet = silence(launch)
        try:
            its = sources(launch)
            os.close(3)
            watch(its, quiet)
            quiet = None
        except _TooSlow:
            seconds = f"{MOST_SEARCH_S:g} s of CPU time for one second of the log"
            _say(launch, f"--progress-pattern took more than {seconds}; write a simpler one")
        except (ValueError, MemoryError, RecursionError) as error:
            _say(launch, f"--progress-pattern: {error or type(error).__name__}")
        if quiet is not None:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            watch([], quiet)
    finally:
        os._exit(0)


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise _TooSlow


def _say(launch: Fields, text: str) -> None:
    """Tell the user in the job's error log that no more progress is read."""
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    path = os.path.join(launch["cwd"], launch["stderr"])
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        fd = os.open(path, flags)
        os.write(fd, f"radrm: {text}; its progress is not read any more\n".encode())
