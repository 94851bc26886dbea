"""Which process is which: identity, all processes of an attempt, and how to end them.

A pid alone names nobody, for it is given out again. Pid, start time and boot id name
one process for ever. The runner imports this before it starts a job, so the file keeps
to what Python has loaded anyway.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from radrm.host import cgroups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TOKEN_VARIABLE = "RADRM_TOKEN"
"""Marks in their environment all processes of one attempt."""


_LOOKS_AT_THE_NEWEST = 20


class Identity:
    """Names one process for ever. `start_ticks`: clock ticks since boot."""

    __slots__ = ("boot_id", "pid", "start_ticks")

    def __init__(self, pid: int, start_ticks: int, boot_id: str) -> None:
        self.pid = pid
        self.start_ticks = start_ticks
        self.boot_id = boot_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Identity{self._key()}"

    def _key(self) -> tuple[int, int, str]:
        return self.pid, self.start_ticks, self.boot_id


class Stat:
    """What the kernel says about a process. `marked`: it carries the token looked for."""

    __slots__ = ("dead", "group", "marked", "parent", "session", "start_ticks")

    def __init__(self, text: bytes) -> None:
        # The command's name stands in parentheses and may itself hold any character.
        fields = text[text.rindex(b")") + 2 :].split()
        self.marked = False
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.start_ticks = int(fields[19])
        # A leader that has ended while its other threads run looks like a zombie.
        self.dead = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1


def read_stat(pid: int, proc: str = "/proc") -> Stat | None:
    """None when there is no such process."""
    text = _read(f"{proc}/{pid}/stat")
    return Stat(text) if text else None


def boot_id() -> str:
    """Names this boot of the machine. (`clock.boot_id` would import half of Python.)"""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def identify(pid: int) -> Identity | None:
    """The process that has this pid now, a zombie too; None when there is none."""
    stat = read_stat(pid)
    return Identity(pid, stat.start_ticks, boot_id()) if stat else None


def alive(identity: Identity) -> bool:
    """True while that very process runs; a zombie counts as dead."""
    if identity.boot_id != boot_id():
        return False
    stat = read_stat(identity.pid)
    return stat is not None and stat.start_ticks == identity.start_ticks and not stat.dead


def open_pidfd(identity: Identity) -> int | None:
    """A descriptor of that very process; None when it is dead. Raises `OSError` when the
    kernel gives none for another reason, such as too many open files."""
    try:
        fd = os.pidfd_open(identity.pid)
    except OSError:
        if alive(identity):
            raise
        return None
    # Checked after opening: had the pid changed hands before, the start time would tell.
    if alive(identity):
        return fd
    os.close(fd)
    return None


def send_signal(pid: int, start_ticks: int, number: int) -> bool:
    """Signal that very process of this boot; False when it is gone or not ours to signal."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        stat = read_stat(pid)
        if stat is None or stat.start_ticks != start_ticks:
            return False
        signal.pidfd_send_signal(fd, number)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


# ------------------------------------------------------------------ an attempt's


def attempt_processes(
    token: str | None, root: Identity | None, known: Iterable[int] = ()
) -> set[int]:
    """The pids of all living processes of an attempt.

    They are the descendants of `root` (the runner, itself left out), those that carry
    `token` in their environment, the `known` ones, and of all these the descendants and
    the members of the sessions they lead. The caller is never among them.
    """
    return _gather(_all_processes(token), root, known)


def signal_tree(
    number: int, token: str | None, root: Identity | None, known: Iterable[int] = ()
) -> None:
    """Send a signal to all processes of an attempt, and wake those that are stopped."""
    everything = _all_processes(token)
    for pid in _gather(everything, root, known):
        if send_signal(pid, everything[pid].start_ticks, number):
            send_signal(pid, everything[pid].start_ticks, signal.SIGCONT)


def signal_catchers(
    number: int, token: str | None, root: Identity | None, known: Iterable[int] = ()
) -> int:
    """Send a signal to those processes of an attempt that have a handler for it.

    It would only end the others: the shell around a program that saves its state, say.
    Returns how many got it.
    """
    everything = _all_processes(token)
    found = [pid for pid in _gather(everything, root, known) if _catches(pid, number)]
    return sum(send_signal(pid, everything[pid].start_ticks, number) for pid in found)


def _catches(pid: int, number: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except (OSError, ValueError):
        pass  # it has ended
    return False


def kill_tree(
    token: str | None,
    root: Identity | None,
    known: Iterable[int] = (),
    cgroup: str | None = None,
    seconds: float = 2.0,
) -> set[int]:
    """KILL all processes of an attempt; return the pids that survive it for `seconds`.

    All are stopped before the first is killed: what is stopped does not fork, and the
    death of a parent cannot hide its children before they are known.
    """
    deadline = time.monotonic() + seconds
    everything = _all_processes(None)
    caught = {pid: everything[pid].start_ticks for pid in known if pid in everything}
    pause, clean = 0.001, 0
    while True:
        if cgroup is not None:
            cgroups.kill(cgroup)
        stopped: set[int] = set()
        while True:
            everything = _all_processes(token)
            same = {
                pid
                for pid, ticks in caught.items()
                if pid in everything and everything[pid].start_ticks == ticks
            }
            if cgroup is not None:
                same |= cgroups.processes(cgroup)
            found = _gather(everything, root, same)
            late = time.monotonic() > deadline
            if late or found <= stopped:
                break
            for pid in found - stopped:
                caught[pid] = everything[pid].start_ticks
            _signal_all(signal.SIGSTOP, found - stopped, found, everything)
            stopped |= found
        # A process that forks and exits all the time can hide from one look, hardly from two.
        clean = 0 if found else clean + 1
        if clean == 2:
            return set()
        _signal_all(signal.SIGKILL, found, found, everything)
        if late and found:
            return found
        if found:
            time.sleep(pause)
            pause = min(pause * 2, 0.05)


def _signal_all(number: int, pids: set[int], ours: set[int], everything: dict[int, Stat]) -> None:
    """Signal these pids, and the process groups that hold nobody but `ours`: no member of a
    group escapes its signal by forking."""
    strangers = {stat.group for pid, stat in everything.items() if pid not in ours}
    for group in {everything[pid].group for pid in pids} - strangers - {0, os.getpgrp()}:
        with contextlib.suppress(OSError):
            os.killpg(group, number)
    for pid in pids:
        send_signal(pid, everything[pid].start_ticks, number)


def _gather(everything: dict[int, Stat], root: Identity | None, known: Iterable[int]) -> set[int]:
    excluded = {1, os.getpid()}
    found = {pid for pid in known if pid in everything}
    found.update(pid for pid, stat in everything.items() if stat.marked)
    rooted = root is not None and root.pid in everything and alive(root)
    if root is not None and rooted:
        excluded.add(root.pid)
    found -= excluded
    grew = True
    while grew:
        fresh = {
            pid
            for pid, stat in everything.items()
            if pid not in found
            and pid not in excluded
            and (
                stat.parent in found
                or stat.session in found
                or (root is not None and rooted and stat.parent == root.pid)
            )
        }
        found |= fresh
        grew = bool(fresh)
    return found


def _all_processes(token: str | None) -> dict[int, Stat]:
    """Every living process of the machine, those with the token marked."""
    everything: dict[int, Stat] = {}

    def look(pid: int) -> None:
        stat = read_stat(pid)
        if stat is not None and not stat.dead:
            stat.marked = token is not None and token_of(pid) == token
            everything[pid] = stat

    for name in os.listdir("/proc"):
        if name.isdigit():
            look(int(name))
    # What forks and exits all the time is gone before its turn comes: it is the newest.
    for _ in range(_LOOKS_AT_THE_NEWEST):
        newest = int(_read("/proc/loadavg").split()[-1])
        look(newest)
        look(newest + 1)
    return everything


def token_of(pid: int, proc: str = "/proc") -> str | None:
    """The token in a process's environment; None where it has none or we may not look."""
    mark = b"\0" + TOKEN_VARIABLE.encode() + b"="
    _, found, rest = (b"\0" + _read(f"{proc}/{pid}/environ")).partition(mark)
    return rest.partition(b"\0")[0].decode("ascii", "replace") if found else None


def _read(path: str) -> bytes:
    """A whole file of /proc; nothing when the process is gone or hidden from us."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


# ------------------------------------------------------------------ whose is this pid?


class LiveAttempt:
    """What marks the processes of an attempt that runs now."""

    __slots__ = ("attempt", "cgroup", "job_id", "runner", "token")

    def __init__(
        self,
        job_id: int,
        attempt: int,
        token: str | None,
        runner: Identity | None,
        cgroup: str | None = None,
    ) -> None:
        self.job_id = job_id
        self.attempt = attempt
        self.token = token
        self.runner = runner
        self.cgroup = cgroup

    @property
    def owner(self) -> tuple[int, int]:
        return self.job_id, self.attempt


class PidOwners:
    """Says which attempt a process belongs to.

    `update` and `owner_of` may be called from different threads: an update puts a new
    view in the old one's place. `vouchers` names the processes whose token speaks for one
    that has no relation to any job: the first of the container that it is in.
    """

    def __init__(self, vouchers: Callable[[int], Iterable[int]] = lambda _: ()) -> None:
        self._vouchers = vouchers
        self._view = _View((), {}, vouchers)

    def update(self, attempts: Iterable[LiveAttempt]) -> None:
        """These attempts are alive now, and no others."""
        live = tuple(attempts)
        owners = {attempt.owner for attempt in live}
        # Who was nobody's may belong to an attempt that we have only now heard of.
        kept: dict[tuple[int, int], tuple[int, int] | None] = {
            key: owner for key, owner in self._view.cache.copy().items() if owner in owners
        }
        self._view = _View(live, kept, self._vouchers)

    def owner_of(self, pid: int) -> tuple[int, int] | None:
        """(job id, attempt number), or None for a process that radrm did not start."""
        return self._view.owner_of(pid)

    def seen_of(self, owner: tuple[int, int]) -> list[int]:
        """The pids that were asked about, belong to this attempt, and exist."""
        seen = [key for key, found in self._view.cache.copy().items() if found == owner]
        now = {pid: read_stat(pid) for pid, _ in seen}
        return [pid for pid, ticks in seen if (stat := now[pid]) and stat.start_ticks == ticks]


class _View:
    """The live attempts of one moment, and the answers given since."""

    def __init__(
        self,
        attempts: tuple[LiveAttempt, ...],
        cache: dict[tuple[int, int], tuple[int, int] | None],
        vouchers: Callable[[int], Iterable[int]],
    ) -> None:
        self.cache = cache
        self._vouchers = vouchers
        self._by_token = {a.token: a.owner for a in attempts if a.token is not None}
        self._by_group = {
            a.cgroup.rpartition("/")[2]: a.owner for a in attempts if a.cgroup is not None
        }
        self._by_runner = {
            (a.runner.pid, a.runner.start_ticks): a.owner for a in attempts if a.runner is not None
        }

    def owner_of(self, pid: int) -> tuple[int, int] | None:
        stat = read_stat(pid)
        if stat is None:
            return None
        key = pid, stat.start_ticks
        if key not in self.cache:
            self.cache[key] = (
                self._by_its_token(pid)
                or self._by_control_group(pid)
                or self._by_ancestry(pid, stat)
                or self._by_container(pid)
            )
        return self.cache[key]

    def _by_its_token(self, pid: int) -> tuple[int, int] | None:
        token = token_of(pid)
        return self._by_token.get(token) if token is not None else None

    def _by_container(self, pid: int) -> tuple[int, int] | None:
        if not self._by_token:
            return None
        return next(filter(None, map(self._by_its_token, self._vouchers(pid))), None)

    def _by_control_group(self, pid: int) -> tuple[int, int] | None:
        if not self._by_group:
            return None
        names = _read(f"/proc/{pid}/cgroup").decode("utf-8", "replace").strip().split("/")
        return next((self._by_group[name] for name in names if name in self._by_group), None)

    def _by_ancestry(self, pid: int, stat: Stat | None) -> tuple[int, int] | None:
        while stat is not None:
            key = pid, stat.start_ticks
            owner = self._by_runner.get(key) or self.cache.get(key)
            if owner is not None or pid <= 1:
                return owner
            pid = stat.parent
            stat = read_stat(pid)
        return None
