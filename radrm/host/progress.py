"""What jobs report while they run: their datagrams, and the sockets that take them."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import stat
from collections.abc import Collection, Mapping
from math import isfinite

from msgspec import Struct

from radrm.core.records import Instant, Progress, TaskUse
from radrm.errors import plain
from radrm.host.sockets import receive

# ------------------------------------------------------------------
# What a datagram says of a job's progress, and what a job has said last.
#
# A datagram is UTF-8 text of at most 512 bytes: lines `key=value`. The keys are `step`, `total`,
# `epoch`, `loss`, `work_done` (0..1), `data_wait` (0..1) and `saved` (the step that is saved); the
# values are numbers. A launcher of several tasks also says `resized` (a generation that it has
# answered) and `use.ROLE.N=CPU_S,MIB[,NETWORK]` for each task, in one or several datagrams. Other
# keys are ignored, so that newer senders can say more. A datagram with a mistake is dropped as a
# whole: one half of a report would only mislead.
#
# The process that reads the logs of a job with a silent limit says `silent=SECONDS`: for so many
# real seconds they have not changed.
#
# `steps` is how many optimizer steps a program has done since it began; `in_jobs/sitecustomize.py`
# says so at the first ones. It is no progress: a job may go on from a saved step, or train twice.
#
# A newer value replaces what contradicts it: a step beyond the known total makes the total unknown,
# as `total=0` does.


MOST_BYTES = 512
"""The longest datagram."""
MOST_TASKS = 256
"""Tasks of one attempt whose use is remembered."""
USE = "use."
_KEYS = frozenset(
    (
        *("step", "total", "epoch", "loss", "work_done", "data_wait", "saved"),
        *("steps", "resized", "silent"),
    )
)
_NEVER_NEGATIVE = ("step", "total", "epoch", "saved", "steps", "resized", "silent")
_STEPS = frozenset({"step", "total"})
_PARTS = ("work_done", "data_wait")
_MOST_CPU_S, _MOST_MIB = 1e12, 1 << 30
_LONGEST_ROLE = 64
_MOST_SHOWN = 24


class BadReport(ValueError):
    """A datagram that is dropped; the message is the reason, in one line."""


def parse(datagram: bytes) -> dict[str, float]:
    """Return the values of the known keys. Raises `BadReport`."""
    if len(datagram) > MOST_BYTES:
        raise BadReport(f"longer than {MOST_BYTES} bytes")
    try:
        lines = datagram.decode().splitlines()
    except UnicodeDecodeError:
        raise BadReport("not UTF-8 text") from None
    found: dict[str, float] = {}
    for line in lines:
        key, equals, text = line.partition("=")
        key = key.strip()
        if not equals and key:
            raise BadReport(f"{_shown(line)} is not KEY=NUMBER")
        if key in _KEYS:
            found[key] = _number(key, text)
    _check(found)
    return found


def _number(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise BadReport(f"{key}={_shown(text)} is not a number") from None
    if not isfinite(value):
        raise BadReport(f"{key}={value} is not a finite number")
    return value


def _check(found: Mapping[str, float]) -> None:
    for key in _NEVER_NEGATIVE:
        if found.get(key, 0.0) < 0:
            raise BadReport(f"{key}={found[key]:g} is negative")
    for key in _PARTS:
        if not 0 <= found.get(key, 0.0) <= 1:
            raise BadReport(f"{key}={found[key]:g} is not between 0 and 1")
    if found.get("total") and found.get("step", 0.0) > found["total"]:
        raise BadReport(f"step={found['step']:g} is more than total={found['total']:g}")


def parse_use(datagram: bytes) -> list[TaskUse]:
    """Return what a datagram that `parse` has taken says about tasks. Raises `BadReport`."""
    if USE.encode() not in datagram:
        return []
    found = []
    for line in datagram.decode().splitlines():
        key, _, text = line.partition("=")
        if key.strip().startswith(USE):
            found.append(_task_use(key.strip(), text))
    return found


def _task_use(key: str, text: str) -> TaskUse:
    role, _, number = key.removeprefix(USE).rpartition(".")
    task = int(number) if number.isascii() and number.isdigit() and len(number) < 4 else MOST_TASKS
    if not 0 < len(role) <= _LONGEST_ROLE or task >= MOST_TASKS:
        raise BadReport(f"{_shown(key)} names no task")
    words = text.split(",")
    if len(words) not in (2, 3):
        raise BadReport(f"{_shown(key)} is not CPU_S,MIB or CPU_S,MIB,NETWORK")
    cpu_s, mib, *network = (_number(plain(key), word) for word in words)
    if not 0 <= cpu_s <= _MOST_CPU_S or not 0 <= mib <= _MOST_MIB:
        raise BadReport(f"{_shown(key)}={_shown(text)} is not a use of CPUs and memory")
    if network and not 0 <= network[0] <= 1:
        raise BadReport(f"{_shown(key)}: network {network[0]:g} is not between 0 and 1")
    return TaskUse(role, task, cpu_s, int(mib), network[0] if network else None)


def _shown(text: str) -> str:
    cut = text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."
    return ascii(cut)


class Latest(Struct):
    """The last value of each key that one attempt has reported; None: it did not say."""

    at: Instant | None = None
    """When the last report was read."""
    step_at: Instant | None = None
    """When the last one was read that said how far the job is."""
    step: float | None = None
    total: float | None = None
    epoch: float | None = None
    loss: float | None = None
    work_done: float | None = None
    data_wait: float | None = None
    saved: Progress | None = None
    """The progress that it has saved."""

    def take(self, report: Mapping[str, float], now: Instant) -> None:
        """Note a report, as `parse` returns it."""
        self.at = now
        saved = report.get("saved")
        if saved is not None and "step" not in report and saved > (self.step or 0.0):
            report = {**report, "step": saved}
        self.step = report.get("step", self.step)
        if "total" in report:
            self.total = report["total"] or None
            self.work_done = None if self.total is None else self.work_done
        self.epoch = report.get("epoch", self.epoch)
        self.loss = report.get("loss", self.loss)
        self.data_wait = report.get("data_wait", self.data_wait)
        if self.step is not None and self.total is not None and self.step > self.total:
            if "step" in report:
                self.total = None
            else:
                self.step = None  # the total is new: so are the steps to come
            self.work_done = None
        if "work_done" in report:
            self.work_done = report["work_done"]
        elif "step" in report or "total" in report:
            self.work_done = _fraction(self.step, self.total, self.work_done)
        # A step without a total says nothing of the part that the job has told itself.
        by_steps = self.total is not None or self.work_done is None
        if "work_done" in report or (by_steps and report.keys() & _STEPS):
            self.step_at = now
        if saved is not None:
            self.saved = self._as_of(saved, now)

    def _as_of(self, step: float, now: Instant) -> Progress:
        """Return the progress at a step. Loss and epoch are known only if it is the last one."""
        if step == self.step:
            return self.progress(now)
        total = self.total if self.total is not None and step <= self.total else None
        return Progress(now, step, total, work_done=_fraction(step, total, None))

    def progress(self, now: Instant) -> Progress:
        """Return all that is known, as of the last report."""
        at = self.at or now
        known = self.step, self.total, self.loss, self.work_done, self.epoch, self.data_wait
        return Progress(at, *known, None if self.step_at == at else self.step_at)


def _fraction(step: float | None, total: float | None, known: float | None) -> float | None:
    """Return the part of all steps that is done; `known` if the steps do not tell."""
    return known if step is None or not total else step / total


# ------------------------------------------------------------------
# One datagram socket for each attempt, in a folder of its own.
#
#     run/progress/          the daemon's
#         SERIAL/            the attempt's: only the daemon writes there, so nobody else can put
#                            a file or a link there; a container mounts it
#             socket         mode 0600, owned by the job's user
#
# Theory of operation. The file's owner and mode are the guard: the kernel lets only the job's user
# (and root) send. So no datagram has to say who sent it. The daemon takes a few datagrams at a
# time. The kernel keeps the next ones (`net.unix.max_dgram_qlen`) and refuses more: a sender that
# does not block gets EAGAIN, and nobody else's socket is concerned.
#
# A datagram that was not read is lost when the daemon ends. Its successor binds a new socket in the
# same folder, so a job's path stays valid, also in a container that has mounted the folder.


log = logging.getLogger("radrm")

SOCKET = "socket"
LONGEST_PATH = 107
"""Bytes of a path that every program can address, without the trick of `sockets.py`."""
_LONGEST_SERIAL = 16


class Receiver:
    """The sockets of live attempts, below the folder `path`. Used by one thread.

    `give_away`: each socket gets its job's user as owner.
    """

    def __init__(self, path: str, give_away: bool) -> None:
        self.path = path
        self._give_away = give_away
        self._mode = 0o711 if give_away else 0o700
        self._epoll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._serials: dict[int, int] = {}
        self._ended: set[int] = set()
        """Those whose socket is closed, and whose folder is there."""

    def place(self, serial: int) -> str:
        """The path of an attempt's socket; "" if it is too long."""
        path = self._path(serial)
        return path if len(os.fsencode(path)) <= LONGEST_PATH else ""

    def open(self, serial: int, uid: int) -> str:
        """Bind an attempt's socket and return its path; "" if that fails, with a line in the log.

        A job without it runs; only its reports are missing.
        """
        if serial in self._sockets:
            return self._path(serial)
        if not self.place(serial):
            log.warning(
                "attempt %d cannot report its progress: the path of its socket is longer than %d "
                "bytes; set RADRM_HOME to a shorter path",
                serial,
                LONGEST_PATH,
            )
            return ""
        try:
            self._bind(serial, uid)
        except OSError as error:
            log.warning("attempt %d cannot report its progress: %s", serial, error)
            return ""
        return self._path(serial)

    def _bind(self, serial: int, uid: int) -> None:
        path, folder = self._path(serial), f"{self.path}/{serial}"
        with contextlib.suppress(FileExistsError):
            try:
                os.mkdir(folder, 0o700)
            except FileNotFoundError:
                os.mkdir(self.path, 0o700)  # it was removed while the daemon ran
                os.chmod(self.path, self._mode)
                os.mkdir(folder, 0o700)
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise OSError(f"{folder} is not a folder of this daemon")
        os.chmod(folder, self._mode)  # mkdir's own mode is cut by the umask
        opened = receive(path)
        try:
            if self._give_away:
                os.chown(path, uid, -1, follow_symlinks=False)
            self._epoll.register(opened.fileno(), select.EPOLLIN)
        except OSError:
            opened.close()
            raise
        self._sockets[serial] = opened
        self._serials[opened.fileno()] = serial

    @property
    def serials(self) -> Collection[int]:
        """The attempts that have a socket."""
        return self._sockets.keys()

    def ready(self) -> list[int]:
        """The attempts that have sent something."""
        found = self._epoll.poll(0, max(1, len(self._sockets)))
        return [self._serials[fd] for fd, _ in found]

    def read(self, serial: int, most: int) -> list[bytes]:
        """Take up to `most` datagrams of an attempt. One that is too long is cut after the first
        byte too many."""
        found: list[bytes] = []
        opened = self._sockets.get(serial)
        if opened is not None:
            with contextlib.suppress(OSError):  # no more are there
                while len(found) < most:
                    found.append(opened.recv(MOST_BYTES + 1))
        return found

    def end(self, serial: int) -> None:
        """Close the socket of an attempt that has ended. Its folder stays until `close`."""
        opened = self._sockets.pop(serial, None)
        if opened is not None:
            del self._serials[opened.fileno()]
            opened.close()
            self._ended.add(serial)

    def close(self, serial: int) -> None:
        """Close the socket of an attempt that has ended, and remove its folder."""
        self.end(serial)
        if serial in self._ended:
            self._ended.discard(serial)
            self._remove(str(serial))

    def remove_left(self) -> None:
        """Remove the folders of attempts that have no socket here: they have ended."""
        live = set(map(str, self._sockets))
        with contextlib.suppress(OSError):
            for name in os.listdir(self.path):
                own = name.isascii() and name.isdigit() and len(name) < _LONGEST_SERIAL
                if own and name not in live:
                    self._remove(name)

    def _remove(self, name: str) -> None:
        """Remove an attempt's socket and folder; follow no link, and leave what is not radrm's."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.suppress(OSError):
            folder = os.open(f"{self.path}/{name}", flags)
            try:
                with contextlib.suppress(FileNotFoundError):
                    if stat.S_ISSOCK(os.lstat(SOCKET, dir_fd=folder).st_mode):
                        os.unlink(SOCKET, dir_fd=folder)
            finally:
                os.close(folder)
            os.rmdir(f"{self.path}/{name}")

    def release(self) -> None:
        """Let go of all sockets; their files stay for the next daemon."""
        for opened in self._sockets.values():
            opened.close()
        self._sockets, self._serials = {}, {}
        self._epoll.close()

    def _path(self, serial: int) -> str:
        return f"{self.path}/{serial}/{SOCKET}"
