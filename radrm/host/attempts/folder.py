"""The folder of one attempt: its files, who writes them, and what they prove.

Theory of operation. Each file is written once, by one process, as a whole (`write_durably`);
the claim is decided by `O_EXCL`. So a reader sees a file as it was meant, or not at all. A
kill between two files leaves a state that the list below explains. A power failure can take
back every file but a synced exit.json. What is left then proves no start to be void: the store
knows the boot of each launch, and one of an earlier boot counts as begun.

    launch.json   the daemon's, before the runner starts: all that the runner needs
    lock          held by the runner while it runs the attempt
    claim         made by the process that decides the attempt: its runner, to run it, or
                  a daemon that found no runner, so that none ever starts it
    script        the runner's copy of the job's script, its user's to read
    start.json    the runner's: there before the job's first instruction. A step's is synced: one
                  that has not begun is run again by Slurm
    exit.json     the runner's, once the last process of the job is gone. It tells the daemon before
                  the record is on disk: the end is, once the daemon has stored it. Only if it does
                  not say so soon, the record is synced. If a power failure comes before both, the
                  attempt is lost as if that had come while it ran

Without start.json nothing of the job ever ran, and with exit.json nothing of it runs any
more. So an attempt is, on this host, in one of these states (`evidence.State`), and never in an
earlier one again:

    state     proof                          a daemon that finds it              next
    VOID      the claim is the daemon's, or  `Void`: nothing ever ran, and the
              names nobody, its lock free    runner, if it comes, stands down
    LAUNCHED  the claim is a runner's, that  `Running`, not started              STARTED, ENDED,
              lives                                                              ORPHANED
    STARTED   start.json, its runner lives   `Running`                           ENDED, ORPHANED
    ORPHANED  its runner is dead             kills what is left of it            LOST, STUCK
    STUCK     something outlived the KILL    `Running`                           ORPHANED
    ENDED     exit.json                      `Ended`
    LOST      none: nothing is left of an    `Lost`
              orphan, or the server went down

No folder is VOID, too, and so is one with launch.json alone: who finds it takes the claim. A
damaged start.json counts as one that is there, a damaged exit.json as
none. While a runner waits for what the main process has left, and ends it, the attempt is started:
how the main process ended is in the runner's memory alone, and is lost with it. What a step runs
(`waiting`) is ended only with the step's last word, or without the step.

The runner imports this file before it starts a job, so it imports only what Python has loaded
anyway.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import time

from radrm.host.crossings import crossed
from radrm.host.processes.identity import Identity, boot_id
from radrm.host.storage.files import open_folder, write_all, write_durably, write_whole
from radrm.host.wall import wall_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Fields = dict[str, Any]

VERSION = 1

LAUNCH = "launch.json"
LOCK = "lock"
CLAIM = "claim"
SCRIPT = "script"
START = "start.json"
EXIT = "exit.json"
STEP = "step"
"""The folder in it of an attempt whose runner waits for it (`waiting`)."""
OVER = "over.json"
RECORDS = (LAUNCH, LOCK, CLAIM, SCRIPT, START, EXIT)

MOST_READ = 64 << 20
"""Bytes of one record: the longest envelope, with every character of it escaped."""
READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""No link is followed, and no pipe waited for."""

EXIT_RECORD_PATIENCE_S = 60.0
"""How long a full disk may keep the exit record waiting before the attempt is lost."""
_SHORT_TAIL = 4096
"""Characters, each up to 6 bytes in the record: two such tails fit into the lock file's room."""

RUNNER = "runner"
DAEMON = "daemon"

_HOW = ("code", "signal", "never_started")
_LARGEST = 2**53
_PIDS = (1, 2**31 - 1)
_RANGES = {
    "pid": _PIDS,
    "runner_pid": _PIDS,
    "uid": (0, 2**32 - 1),
    "gid": (0, 2**32 - 1),
    "code": (0, 255),
    "signal": (1, 64),
}
_NAMES = {"token": 8, "cgroup": 1, "boot_id": 1}
"""What names processes, and its least length: an empty token would stand for every process."""

_MISSING = object()
_WORD = (str, type(None))
_NUMBER = (int, type(None))
_TIMES = ("boot_s", "wall_s")
_LONGEST_S = 1e12
_FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    LAUNCH: {
        "job_id": (int,),
        "attempt": (int,),
        "token": (str,),
        "argv": (list, type(None)),
        "script": _WORD,
        "interpreter": (list, type(None)),
        "cwd": (str,),
        "environment": (dict,),
        "stdout": (str,),
        "stderr": (str,),
        "umask": (int,),
        "uid": _NUMBER,
        "gid": _NUMBER,
        "user": (str,),
        "grace_s": (int, float),
        "kill_grace_s": (int, float),
        "cgroup": _WORD,
    },
    CLAIM: {"by": (str,), "pid": (int,), "start_ticks": (int,), "boot_id": (str,)},
    START: {
        "pid": (int,),
        "start_ticks": (int,),
        "runner_pid": (int,),
        "runner_start_ticks": (int,),
        "boot_id": (str,),
        "boot_s": (int, float),
        "wall_s": (int, float),
    },
    OVER: {
        "gone": _WORD,
        "why": _WORD,
        "boot_id": (str,),
        "boot_s": (int, float),
        "wall_s": (int, float),
    },
    EXIT: {
        "code": _NUMBER,
        "signal": _NUMBER,
        "never_started": _WORD,
        "stderr_tail": _WORD,
        "stdout_tail": _WORD,
        "boot_id": (str,),
        "boot_s": (int, float),
        "wall_s": (int, float),
    },
}
"""What each record must hold. Times are real, on both clocks; exactly one of `code`,
`signal` and `never_started` is set; the tails are the ends of the logs of an attempt that
ended badly, or that may have, as far as its user can read them. `passing`, where it is there and
true, says that what kept the attempt from starting lies with the server and may be over soon;
`shell_code` is then the exit code of the job's process: 127 or 126, as of a shell, for a program
that does not exist or cannot be run, 75 if its user's files cannot be reached now. Who reads the
others checks them: `limits` (`processes/limits.py`), `progress` (what `log_watcher.py` reads),
`silent_s` (the real seconds of `--silent-limit`), `grouped` (no process of the job may run
outside its group), `not_limited` (why a limit is not set),
`cpu_list` and `binds_tasks` (`plan.py`; a start record has the CPUs that were
set), `exceeded_mib` (the host memory limit at which the kernel killed processes), `waits_for_all`,
`left` (what still ran when the main process had ended, for users), `itself_ago_s` (the real seconds
since the main process ended without a stop), `tasks` (`elastic/exits.py`), `redirected`
(`redirected.py`), `no_room` (`tails.py`) and `memory_kills` (`procfs.py`; those while it ran, of an
attempt that KILL has ended)."""

NO_END: Fields = dict.fromkeys(("code", "signal", "never_started", "stderr_tail", "stdout_tail"))
"""An exit record before anything is known."""


def is_own_name(name: str) -> bool:
    """True for what radrm writes into the folder of an attempt, finished or half written."""
    return name in RECORDS or (name.startswith(".") and name.endswith(".tmp"))


def remove_folder(parent: str, name: str) -> None:
    """Remove what radrm wrote into the folder `name` of an attempt, and the folder if that was
    all. No link is followed, and what is not radrm's stays. Raises `OSError`."""
    above = open_folder(parent)
    try:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folder = os.open(name, flags, dir_fd=above)
        try:
            if os.fstat(folder).st_uid != os.geteuid():
                return
            # First: a runner that stood still until now could take the claim once that is gone.
            own = sorted(filter(is_own_name, os.listdir(folder)), key=LAUNCH.__ne__)
            for each in own:
                os.unlink(each, dir_fd=folder)
                crossed("attempt's file removed", each)
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=above)
        crossed("attempt's folder removed")
    finally:
        os.close(above)


def write_record(
    folder: str,
    name: str,
    fields: Fields,
    durably: bool = True,
    before: Callable[[], None] | None = None,
) -> None:
    """Write a record, for its owner's eyes only; not `durably`: a power failure may spoil it, and
    `before` is called right before it is there."""
    path = os.path.join(folder, name)
    if durably:
        write_durably(path, _encode(fields))
    else:
        write_whole(path, _encode(fields), before=before)


def write_exit(folder: str, lock: int, end: Fields, tell: Callable[[], bool]) -> bool:
    """Write the exit record, patiently: without it the attempt is lost. `end` may say when that
    was; else it is now. `lock`: the descriptor of the lock file, which keeps room for it. `tell` is
    called when the record can be read: from then on the daemon may remove the folder. It returns
    whether the daemon has stored the end; else the record is synced. False if it cannot be
    written."""
    record = {**NO_END, **now(), **end}
    deadline = time.monotonic() + EXIT_RECORD_PATIENCE_S
    while True:
        try:
            write_record(folder, EXIT, record, durably=False)
            if not tell():
                _sync_exit(folder)
            return True
        except OSError:
            if time.monotonic() > deadline or not os.path.isdir(folder):
                return False
        # On a full disk, what the lock file has kept makes room for a shorter record.
        with contextlib.suppress(OSError):
            os.ftruncate(lock, 0)
        for tail in ("stderr_tail", "stdout_tail"):
            record[tail] = record[tail] and record[tail][-_SHORT_TAIL:]
        record |= {"tasks": None, "redirected": None}
        time.sleep(0.2)


def _sync_exit(folder: str) -> None:
    """Put the exit record on disk, with its name. Raises `OSError`."""
    for path in (os.path.join(folder, EXIT), folder):
        with contextlib.suppress(FileNotFoundError):  # it is stored, and was removed
            fd = os.open(path, READING)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
    crossed("exit record synced")


def read_record(folder: str, name: str) -> tuple[Fields | None, str | None]:
    """The record, or None and, unless it is simply not there, the reason why not.

    No link is followed and no writer waited for. More than `MOST_READ` bytes are not read.
    """
    return read_opened(lambda: os.open(os.path.join(folder, name), READING), name, MOST_READ)


def read_opened(
    opened: Callable[[], int], name: str, most: int
) -> tuple[Fields | None, str | None]:
    """As `read_record`, from the descriptor that a function returns; it may raise `OSError`.
    More than `most` bytes are not read."""
    try:
        fd = opened()
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                return None, f"{name} is damaged: it is no file"
            # Python reserves room for all that it may read.
            wanted, data = min(most, found.st_size) + 1, b""
            while len(data) < wanted and (part := os.read(fd, wanted - len(data))):
                data += part
        finally:
            os.close(fd)
    except FileNotFoundError:
        return None, None
    except OSError as error:
        return None, f"{name} cannot be read: {error.strerror}"
    if len(data) > most:
        return None, f"{name} is damaged: it is longer than {most >> 20} MiB"
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return None, f"{name} is damaged"
    if not isinstance(fields, dict) or not isinstance(fields.get("version"), int):
        return None, f"{name} is damaged"
    if fields["version"] != VERSION:
        return None, f"{name} has version {fields['version']}; this radrm reads version {VERSION}"
    for key, types in _FIELDS[name].items():
        value = fields.get(key, _MISSING)
        sound = isinstance(value, types) and (value is None or _usable(key, value))
        if not sound or (key in _TIMES and not 0 <= value <= _LONGEST_S):  # NaN is not, either
            return None, f"{name} is damaged: no usable '{key}'"
    if name == EXIT and sum(fields[key] is not None for key in _HOW) != 1:
        return None, f"{name} is damaged: it does not say how the attempt ended"
    return fields, None


def _usable(key: str, value: object) -> bool:
    """False for what no radrm has written and what would be an error wherever it is used."""
    if isinstance(value, (int, float)):
        low, high = _RANGES.get(key, (-_LARGEST, _LARGEST))
        return not isinstance(value, bool) and low <= value <= high
    if isinstance(value, str) and key in _NAMES:
        return "\0" not in value and len(value) >= _NAMES[key]
    if isinstance(value, list):
        return all(isinstance(word, str) for word in value)
    if isinstance(value, dict):
        return all(isinstance(text, str) for text in value.values())
    return True


def now() -> Fields:
    """The fields that say when, in real seconds since boot and since the epoch."""
    return {
        "boot_id": boot_id(),
        "boot_s": time.clock_gettime(time.CLOCK_BOOTTIME),
        "wall_s": wall_s(),
    }


class Claim:
    """Names the process that decides the attempt: the first to take it, for ever."""

    @staticmethod
    def take(folder: str, by: str, who: Identity) -> bool:
        """Take the claim; False when it is taken. Raises `OSError` when it cannot be written:
        then it may be taken all the same, and no process will use it.

        It is not synced: no process that held it survives a power failure, and if it led to
        anything, start.json says so.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            fd = os.open(os.path.join(folder, CLAIM), flags, 0o600)
        except FileExistsError:
            return False
        try:
            crossed("claim made", by)
            named = {"pid": who.pid, "start_ticks": who.start_ticks, "boot_id": who.boot_id}
            write_all(fd, _encode({"by": by, **named}))
            crossed("claim written", by)
        finally:
            os.close(fd)
        return True

    @staticmethod
    def holder(folder: str) -> tuple[str, Identity] | None:
        """RUNNER or DAEMON, and the process that took the claim; None when it does not
        say (yet: it is made before it is written)."""
        fields, _ = read_record(folder, CLAIM)
        if fields is None:
            return None
        who = Identity(fields["pid"], fields["start_ticks"], fields["boot_id"])
        return fields["by"], who


def take_lock(folder: str) -> int:
    """Hold the lock until the descriptor returned is closed, by the end of the process at
    the latest. A daemon that tests it does so for a moment: this waits."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    fd = os.open(os.path.join(folder, LOCK), flags, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def lock_held(folder: str) -> bool:
    try:
        fd = os.open(os.path.join(folder, LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _encode(fields: Fields) -> bytes:
    return json.dumps({"version": VERSION, **fields}).encode("ascii")
