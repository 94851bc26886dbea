"""Starts attempts, adopts those of an earlier daemon, signals them, and learns their end.

Used by the daemon's one thread, except `owner_of`; what a killed runner has left is ended
in another. It decides nothing about jobs and stores nothing but the attempts' folders; what
those prove stands in `attempts`.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from radrm.errors import Refused, StoreError
from radrm.host.attempts import cgroups, engines, start_runner
from radrm.host.attempts import folder as attempts
from radrm.host.attempts.containers import Containers
from radrm.host.attempts.evidence import Ended, Evidence, Lost, Running, Started, Void
from radrm.host.attempts.owners import LiveAttempt, PidOwners
from radrm.host.attempts.processes import Identity, alive, boot_id, identify, kill_tree, open_pidfd
from radrm.host.attempts.procfs import TOKEN_VARIABLE
from radrm.host.clock import Clock
from radrm.host.storage.files import fsync_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """All that one attempt needs. `argv` (a bare command) or `script` (its text), not both.

    `uid` and `gid` None: as the daemon itself. `interpreter` None: as the script's first
    line says. `token` is a secret that marks the attempt's processes. `kill_grace_s`, on
    the launcher's clock, is what processes get that outlive the main one, from TERM to
    KILL. Strings may hold surrogate escapes, as paths and environments of Unix do.
    """

    serial: int
    job_id: int
    attempt: int
    uid: int | None
    gid: int | None
    user: str
    argv: Sequence[str] | None = None
    script: str | None = None
    interpreter: Sequence[str] | None = None
    cwd: str
    environment: Mapping[str, str]
    stdout: str
    stderr: str
    token: str
    umask: int = 0o022
    kill_grace_s: float = 2.0


class _Ending:
    """`kill`, in a thread of its own: to look at every process of a full server takes
    seconds. `done` can be read when it has returned; `survivors` is its result."""

    def __init__(self, kill: Callable[[], list[int]]) -> None:
        self.done = os.eventfd(0, os.EFD_CLOEXEC)
        self._kill = kill
        self._survivors: list[int] = []
        self._error: Exception | None = None
        threading.Thread(target=self._run, name="end", daemon=True).start()

    def _run(self) -> None:
        try:
            self._survivors = self._kill()
        except Exception as error:
            self._error = error
        finally:
            os.eventfd_write(self.done, 1)

    def survivors(self) -> list[int]:
        """Once `done` can be read. Raises what `kill` raised."""
        if self._error is not None:
            raise self._error
        return self._survivors


@dataclass(slots=True)
class _Live:
    """An attempt that has not ended, as far as we know."""

    serial: int
    job_id: int
    attempt: int
    evidence: Evidence
    token: str | None
    cgroup: str | None
    uid: int | None
    """The job's user; None: as the daemon."""
    child: int | None = None
    """The runner's pid, while it is our own child and not reaped."""
    runner: Identity | None = None
    pidfd: int | None = None
    announcement: int | None = None
    """A pipe that the runner writes to when start.json is there."""
    told: bool = False
    survivors: list[int] = field(default_factory=list)
    """Descriptors of processes that outlived a KILL (they are stuck in the kernel)."""
    ending: _Ending | None = None
    """What a killed runner has left is being killed."""

    @property
    def fds(self) -> list[int]:
        own = (self.pidfd, self.announcement, self.ending.done if self.ending else None)
        return [*(fd for fd in own if fd is not None), *self.survivors]


class Launcher:
    """The attempts of one daemon.

    `keep` leaves the folders of ended attempts where they are, to be looked into.
    """

    def __init__(self, state_dir: str | os.PathLike[str], clock: Clock, keep: bool = False) -> None:
        self._attempts = os.path.abspath(os.path.join(state_dir, "attempts"))
        self._clock = clock
        self._keep = keep
        self._live: dict[int, _Live] = {}
        self._owners = PidOwners(Containers().vouchers)
        self._retiring: list[int] = []
        self._retired: list[int] = []

    # ---------------------------------------------------------------- beginning

    def launch(self, plan: LaunchPlan) -> None:
        """Start the attempt's runner; `poll` tells what becomes of it.

        Raises `Refused` or `StoreError` when there is no runner and never will be.
        """
        if (plan.argv is None) == (plan.script is None):
            raise ValueError("a plan has either argv or script")
        if plan.uid not in (None, os.geteuid()) and os.geteuid() != 0:
            raise Refused(
                f"attempt {plan.serial} is user {plan.user}'s, and this daemon is not root; "
                "submit it to a daemon of that user"
            )
        live = self._prepare(plan)
        try:
            self._spawn(live)
        except OSError as error:
            self._remove_folder(plan.serial)
            raise _cannot_launch(plan.serial, error) from error
        self._live[plan.serial] = live
        self._update_owners()

    def _prepare(self, plan: LaunchPlan) -> _Live:
        folder = self._folder(plan.serial)
        environment = dict(plan.environment)
        environment.pop(TOKEN_VARIABLE, None)  # a job that submits a job has one
        environment[engines.ARGUMENTS_VARIABLE] = engines.arguments(plan.token, environment)
        record = {
            "job_id": plan.job_id,
            "attempt": plan.attempt,
            "token": plan.token,
            "argv": None if plan.argv is None else list(plan.argv),
            "script": plan.script,
            "interpreter": None if plan.interpreter is None else list(plan.interpreter),
            "cwd": plan.cwd,
            "environment": {TOKEN_VARIABLE: plan.token, **environment},
            "stdout": plan.stdout,
            "stderr": plan.stderr,
            "umask": plan.umask,
            "uid": plan.uid,
            "gid": plan.gid,
            "user": plan.user,
            "kill_grace_s": self._clock.real_s(plan.kill_grace_s),
            "cgroup": cgroups.place(f"radrm-{plan.serial}-{os.urandom(4).hex()}"),
        }
        try:
            os.makedirs(self._attempts, 0o711, exist_ok=True)
            os.mkdir(folder)
        except OSError as error:
            raise _cannot_launch(plan.serial, error) from error
        try:
            # A user of another name has to reach the script, and nothing else, in there.
            os.chmod(folder, 0o700 if plan.uid is None else 0o711)
            attempts.write_record(folder, attempts.LAUNCH, record)
            fsync_folder(self._attempts)
        except OSError as error:
            self._remove_folder(plan.serial)
            raise _cannot_launch(plan.serial, error) from error
        return self._known(plan.serial, plan.job_id, plan.attempt, record)

    def _spawn(self, live: _Live) -> None:
        """Start the runner in a session of its own. Raises `OSError` when there is none."""
        assert live.token is not None
        announcement, announce = os.pipe()
        group = [live.cgroup] if live.cgroup is not None else []
        command = [sys.executable, "-I", "-S", start_runner.__file__, live.evidence.folder, *group]
        try:
            live.child = os.posix_spawn(
                command[0],
                command,
                # So that the runner's own child is found by it until it is the job.
                {TOKEN_VARIABLE: live.token},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
                    (os.POSIX_SPAWN_DUP2, announce, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_RDWR, 0),
                ],
                setsid=True,
                # Blocked from birth: a signal that comes early waits until it can be obeyed.
                setsigmask=signal.valid_signals(),
            )
        except OSError:
            os.close(announcement)
            raise
        finally:
            os.close(announce)
        live.announcement = announcement
        live.runner = identify(live.child)
        try:
            live.pidfd = os.pidfd_open(live.child)
        except OSError:
            # Without a descriptor nobody would tell us of its end: have that now. The
            # announcement, which ends with it, makes the daemon look.
            os.kill(live.child, signal.SIGKILL)
            os.waitpid(live.child, 0)
            live.child = None

    def adopt(self, serial: int, job_id: int, attempt: int) -> Void | Running | Ended | Lost:
        """What has become of an attempt that an earlier daemon launched, or meant to.

        After `Void` its runner, if it still comes, stands down. After `Lost` nothing of
        it runs. Raises `StoreError` when that cannot be settled now.
        """
        launch, _ = attempts.read_record(self._folder(serial), attempts.LAUNCH)
        live = self._known(
            serial, job_id, attempt, launch or dict.fromkeys(("token", "cgroup", "uid"))
        )
        if not os.path.isdir(live.evidence.folder):
            return Void()
        if (ended := live.evidence.ended()) is not None:
            return ended
        who = live.evidence.runner()
        if isinstance(who, Void):
            return who
        live.runner = who
        if who is not None and who.boot_id != boot_id():
            return live.evidence.lost("the server went down")
        live.pidfd = open_pidfd(who) if who is not None else None
        if live.pidfd is None and (found := self._conclude(live)) is not None:
            return found
        self._live[serial] = live
        self._update_owners()
        started = live.evidence.started()
        live.told = started is not None
        return Running(started)

    # ---------------------------------------------------------------- waiting

    def fds(self) -> dict[int, int]:
        """The descriptors to wait on for reading, and the serial to `poll` for each.

        To be asked before every wait. A descriptor that is no longer among them stays
        open until the next call, so that a selector can let go of it first.
        """
        for fd in self._retired:
            os.close(fd)
        self._retired, self._retiring = self._retiring, []
        return {fd: live.serial for live in self._live.values() for fd in live.fds}

    def poll(self, serial: int) -> Started | Ended | Lost | None:
        """What is new of an attempt; to be asked again after `Started`. After `Ended` and
        `Lost`, and for an attempt that is not known, there is nothing new."""
        live = self._live.get(serial)
        if live is None:
            return None
        gone = live.pidfd is None or _readable(live.pidfd)  # before start.json is looked for
        if not live.told:
            started = live.evidence.started()
            if started is not None or _readable(live.announcement):
                self._retire(live.announcement)
                live.announcement = None
            if started is not None:
                live.told = True
                return started
        if not gone or (live.survivors and not any(map(_readable, live.survivors))):
            return None
        if live.child is not None:
            os.waitpid(live.child, 0)  # it has ended
            live.child = None
        self._retire(live.pidfd)
        live.pidfd = None
        if live.ending is not None and not _readable(live.ending.done):
            return None
        found: Ended | Lost | None = live.evidence.ended()
        if found is None and self._end_in_time(live):
            found = live.evidence.lost("its runner was killed")
        if found is not None:
            for fd in live.fds:
                self._retire(fd)
            del self._live[serial]
            self._update_owners()
        return found

    def _conclude(self, live: _Live) -> Ended | Lost | None:
        """How it ended, its runner being dead; None while something of it survives."""
        ended = live.evidence.ended()
        if ended is not None:
            return ended
        return live.evidence.lost("its runner was killed") if self._end_tree(live) else None

    def is_live(self, serial: int) -> bool:
        """Whether an attempt was launched or adopted, and its end is not known."""
        return serial in self._live

    def owner_of(self, pid: int) -> tuple[int, int] | None:
        """(job id, attempt number) of a process, None for one that radrm did not start.

        May be called from any thread.
        """
        return self._owners.owner_of(pid)

    # ---------------------------------------------------------------- ending

    def terminate(self, serial: int) -> None:
        """Ask the whole process tree to end (TERM)."""
        self._signal(serial, signal.SIGTERM)

    def kill(self, serial: int) -> None:
        """End the whole process tree (KILL)."""
        self._signal(serial, signal.SIGUSR2)

    def signal(self, serial: int, number: int) -> None:
        """Send signal `number` (1..30) to those of its processes that have a handler for it."""
        live = self._live.get(serial)
        if live is not None and live.pidfd is not None and not _readable(live.pidfd):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(live.pidfd, signal.SIGRTMIN + number)

    def _signal(self, serial: int, number: int) -> None:
        live = self._live.get(serial)
        if live is None:
            return
        if live.pidfd is not None and not _readable(live.pidfd):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(live.pidfd, number)
                signal.pidfd_send_signal(live.pidfd, signal.SIGCONT)  # its job may have stopped it
                return
        self._end_in_time(live)  # without its runner it is lost, whatever was asked for

    def forget(self, serial: int) -> None:
        """Remove the folder of an attempt whose end is stored."""
        if serial in self._live:
            raise ValueError(f"attempt {serial} has not ended")
        folder = self._folder(serial)
        launch, _ = attempts.read_record(folder, attempts.LAUNCH)
        group = launch["cgroup"] if launch is not None else None
        if group is not None and os.path.basename(group).startswith(f"radrm-{serial}-"):
            cgroups.remove(group)
        if not self._keep:
            self._remove_folder(serial)

    def serials(self) -> list[int]:
        """The attempts that have a folder, live or to be forgotten."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(int(name) for name in os.listdir(self._attempts) if name.isdigit())
        return []

    def close(self) -> None:
        """Let go of all attempts; they run on."""
        live = [fd for live in self._live.values() for fd in live.fds]
        for fd in [*self._retired, *self._retiring, *live]:
            os.close(fd)
        self._retired, self._retiring, self._live = [], [], {}

    # ---------------------------------------------------------------- small things

    def _end_in_time(self, live: _Live) -> bool:
        """As `_end_tree`, while the daemon goes on: False until that is done, too."""
        if live.ending is None:
            live.ending = _Ending(lambda: self._kill_tree(live))
        if not _readable(live.ending.done):
            return False
        ending, live.ending = live.ending, None
        self._retire(ending.done)
        return self._outlived_by(live, ending.survivors())

    def _end_tree(self, live: _Live) -> bool:
        """KILL what a dead runner has left; False while some of it survives that."""
        return self._outlived_by(live, self._kill_tree(live))

    def _outlived_by(self, live: _Live, survivors: list[int]) -> bool:
        """True where nobody has survived."""
        for fd in live.survivors:
            self._retire(fd)
        live.survivors = survivors
        return not survivors

    def _kill_tree(self, live: _Live) -> list[int]:
        """Descriptors of those that survive a KILL."""
        users = () if live.uid is None else (live.uid,)
        while True:
            members = self._members(live)
            left = kill_tree(live.token, None, members, live.cgroup, users=users)
            opened = [fd for fd in map(_pidfd_of, left) if fd is not None]
            if opened or not left:
                return opened

    def _members(self, live: _Live) -> Iterator[int]:
        """Processes of the attempt that are known even without its token."""
        yield from self._owners.seen_of((live.job_id, live.attempt))
        if live.token is not None:
            for container in Containers().of_attempt(live.token):
                yield from container.members
        job = live.evidence.job()
        if job is not None and alive(job):
            yield job.pid

    def _retire(self, fd: int | None) -> None:
        if fd is not None:
            self._retiring.append(fd)

    def _folder(self, serial: int) -> str:
        return os.path.join(self._attempts, str(serial))

    def _remove_folder(self, serial: int) -> None:
        """What radrm wrote there, and the folder where nothing else is in it."""
        with contextlib.suppress(OSError):
            attempts.remove_folder(self._attempts, str(serial))

    def _known(self, serial: int, job_id: int, attempt: int, launch: Mapping[str, Any]) -> _Live:
        evidence = Evidence(self._folder(serial), self._clock)
        marks = launch["token"], launch["cgroup"], launch["uid"]
        return _Live(serial, job_id, attempt, evidence, *marks)

    def _update_owners(self) -> None:
        self._owners.update(
            LiveAttempt(live.job_id, live.attempt, live.token, live.runner, live.cgroup, live.uid)
            for live in self._live.values()
        )


def _readable(fd: int | None) -> bool:
    """True when a pidfd's process has ended, or a pipe holds something or has ended."""
    if fd is None:
        return False
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(0))


def _pidfd_of(pid: int) -> int | None:
    identity = identify(pid)
    return open_pidfd(identity) if identity is not None else None


def _cannot_launch(serial: int, error: OSError) -> StoreError:
    where = f" {error.filename}" if error.filename else ""
    return StoreError(
        f"attempt {serial} cannot be launched: {error.strerror}{where}; "
        "look after the daemon's state folder and its limits"
    )
