"""A live attempt as its launcher knows it: its runner, its descriptors, what to kill of it.

Theory of operation. `folder` has what the files prove; this is what the launcher knows beyond that
of an attempt that has not ended for it. While its runner lives, the runner does everything to the
job and tells of its end. A runner that was killed leaves the job's processes behind: the daemon
ends them, in a thread, and only then calls the attempt lost, so that no device is used again too
early. What survives even a KILL is stuck in the kernel; the attempt stays live until that is gone.

    state      since                                     left when              for
    LAUNCHED   its runner was started, or its step told  start.json is there    STARTED
                                                         its runner is dead     ORPHANED
    STARTED    the core was told of start.json           its runner is dead     ORPHANED
    ORPHANED   `Ending` kills what is left               nothing of it is left  its end: LOST
                                                         something is left      STUCK
    STUCK      that outlived the KILL                    one of these is gone   ORPHANED

Where exit.json is there, the attempt of a dead runner ends at once, in whichever state. A state has
its own descriptors to wait on, and none of another: one that can be read and is no news would keep
the daemon awake.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct, field

from radrm.errors import Refused
from radrm.host.attempts import folder, waiting
from radrm.host.attempts import runner as program
from radrm.host.attempts.containers import Containers
from radrm.host.attempts.evidence import Evidence, State
from radrm.host.attempts.forking import Runner
from radrm.host.attempts.owners import LiveAttempt
from radrm.host.attempts.waiting import StepEvidence
from radrm.host.crossings import crossed
from radrm.host.processes import cgroups, client_work, limits
from radrm.host.processes.identity import Identity, alive, identify, open_pidfd, wake
from radrm.host.processes.limits import Limits
from radrm.host.processes.procfs import TOKEN_VARIABLE, Stat, read_stat
from radrm.host.processes.stop import signal_topmost
from radrm.host.processes.tree import attempt_processes, attempt_stats, kill_tree


class Ending:
    """Runs `kill` in a thread: to look at every process of a full server takes seconds."""

    def __init__(self, kill: Callable[[], list[int]]) -> None:
        self.done = os.eventfd(0, os.EFD_CLOEXEC)
        """Can be read when `kill` has returned."""
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
        """What `kill` returned, once `done` can be read. Raises what `kill` raised."""
        if self._error is not None:
            raise self._error
        return self._survivors


class Asker:
    """Asks the processes of attempts, one attempt at a time, in a thread of its own: to look at
    every process of a full server takes long."""

    def __init__(self) -> None:
        self._questions: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def ask(
        self,
        find: Callable[[], Mapping[int, Stat]],
        number: int,
        failed: Callable[[str], None],
    ) -> None:
        """Signal what `find` finds. `failed` is called, in the thread, with the reason why not."""

        def work() -> None:
            try:
                count = signal_topmost(find(), number)
                ended = not count and not find()
            except Exception as error:  # an answer is owed in any case
                failed(f"its processes could not be asked: {error}")
                return
            if ended:
                failed("it has just ended")
            elif not count:
                name = signal.Signals(number).name.removeprefix("SIG")
                failed(f"none of its processes handles {name}")

        self._questions.put(work)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ask", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            self._questions.get()()


class Live(Struct):
    """An attempt that has not ended, as far as the launcher knows."""

    serial: int
    job_id: int
    evidence: Evidence
    token: str | None
    cgroup: str | None
    uid: int | None
    """The job's user; None: as the daemon."""
    limits: Limits
    seen: Callable[[], Iterable[int]]
    """Gives pids that are known to belong to the attempt, whatever their environment says."""
    child: int | None = None
    """The runner's pid, while it is our own child and not reaped; None for a forked one."""
    runner: Identity | None = None
    pidfd: int | None = None
    """Of the runner; of an attempt that a step runs, of the step."""
    step: StepEvidence | None = None
    """Its evidence, if a step runs it."""
    announcement: int | None = None
    """A pipe or socket that the runner writes to when start.json is there, and exit.json."""
    start_reported: bool = False
    """True once the caller of the launcher knows that the attempt has started."""
    told: int = 0
    """How many records the runner has announced that are not looked for yet."""
    freed: bool = False
    """Whether it has said that nothing of the job runs any more, and nobody was told so yet."""
    forked: Runner | None = None
    """Its runner, if that is a fork: `pidfd` and `announcement` are its descriptors."""
    was_signalled: bool = False
    """True once the runner was sent a signal."""
    remains: Ending | list[int] = field(default_factory=list)
    """What a dead runner has left: the thread that kills it, or descriptors of the processes that
    have outlived that."""

    @property
    def state(self) -> State:
        """The present state of an attempt that has not ended, as far as its launcher knows."""
        if isinstance(self.remains, Ending):
            return State.ORPHANED
        if self.remains:
            return State.STUCK
        return State.STARTED if self.start_reported else State.LAUNCHED

    @property
    def fds_of_remains(self) -> list[int]:
        """Those that tell of news of what a dead runner has left."""
        return [self.remains.done] if isinstance(self.remains, Ending) else self.remains

    @property
    def fds(self) -> list[int]:
        """All descriptors that tell of news."""
        own = (self.pidfd, self.announcement)
        return [*(fd for fd in own if fd is not None), *self.fds_of_remains]

    @property
    def tells(self) -> bool:
        """Whether these tell of all news: not of a start that an earlier daemon asked for, and not
        of what a step says."""
        starts = self.start_reported or self.announcement is not None
        return starts and self.pidfd is not None and self.step is None

    @property
    def is_being_ended(self) -> bool:
        """True while nothing new is known of what a dead runner has left."""
        fds = self.fds_of_remains
        return bool(fds) and not any(map(readable, fds))

    @property
    def marks(self) -> LiveAttempt:
        """What marks its processes."""
        marks = self.token, self.runner, self.cgroup, self.uid
        return LiveAttempt(self.job_id, self.serial, *marks)

    @property
    def runner_lives(self) -> bool:
        return self.pidfd is not None and not readable(self.pidfd)

    @property
    def is_over(self) -> bool:
        """True once nothing follows from its runner any more."""
        return not self.runner_lives or (self.step is not None and self.step.is_over)

    def hand_over(self, step: Identity, record: folder.Fields) -> None:
        """Let the step run the attempt. Raises OSError if it cannot; then nothing ever runs it."""
        self.pidfd = open_pidfd(step)
        if self.pidfd is None:
            raise OSError(errno.ESRCH, "its Slurm step has ended")
        try:
            waiting.make(self.evidence.launch_folder, record)
        except OSError:
            os.close(self.pidfd)
            raise
        wake(self.pidfd)

    def listen(self) -> bool:
        """Take what the runner has announced; False if nothing will follow."""
        if self.announcement is None or not readable(self.announcement):
            return True
        with contextlib.suppress(OSError):
            said = os.read(self.announcement, 64)
            self.freed = self.freed or program.FREED in said
            self.told += len(said) - said.count(program.FREED)
            return said != b""
        return False

    def send(self, number: int) -> bool:
        """Send the runner a signal, and let it go on if its job has stopped it; False if it is
        dead, or never begins."""
        if not self.runner_lives:
            return False
        fd = self.pidfd if self.step is None else self._runner_of_step()
        if fd is None:  # of a step's runner that has begun, the step's last word follows
            return self.step is not None and not self.step.stand_down()
        self.was_signalled = True
        try:
            signal.pidfd_send_signal(fd, number)
            signal.pidfd_send_signal(fd, signal.SIGCONT)
        except ProcessLookupError:
            return self.step is not None
        finally:
            if self.step is not None:
                os.close(fd)
        return True

    def _runner_of_step(self) -> int | None:
        """A descriptor of the runner that a step has started; None while there is none."""
        assert self.step is not None
        self.runner = self.step.runner_now() or self.runner
        return None if self.runner is None else open_pidfd(self.runner)

    def make_group(self, prepare: Callable[[str], int | None]) -> int | None:
        """Make the attempt's control group of version 2, and have `prepare` set it up.

        Return what that returns: the gate of its runner. Raises OSError; then the group may be
        there.
        """
        if self.cgroup is None or not cgroups.make(self.cgroup):
            raise OSError(errno.EAGAIN, "its control group cannot be made")
        return prepare(self.cgroup)

    def order(self, runner: Runner, gate: int | None) -> bool:
        """Have a forked runner run the attempt, and hold its job; it reads from `gate` before it
        begins anything. Return False if it cannot."""
        assert self.token is not None
        try:
            runner.order(self.evidence.folder, self.token, gate)
        except OSError:
            return False
        self.forked = runner
        self.runner, self.pidfd, self.announcement = runner.identity, runner.pidfd, runner.orders
        return True

    def release(self) -> Runner | None:
        """Return the forked runner of an attempt that has ended, with its descriptors, if it may
        run another one: no signal that was sent to it may reach that."""
        runner, self.forked = self.forked, None
        if runner is None or self.was_signalled or None in (self.pidfd, self.announcement):
            return None
        self.pidfd = self.announcement = None
        runner.user, runner.serial = self.uid, self.serial
        return runner

    def spawn_runner(self, gate: int | None) -> None:
        """Start a new interpreter, in a session of its own, that runs the attempt. It reads from
        `gate` before it begins. Raises `OSError` if it cannot be started."""
        assert self.token is not None
        announcement, announce = os.pipe()
        command = [sys.executable, "-I", "-S", program.__file__, self.evidence.folder]
        gates = [(os.POSIX_SPAWN_DUP2, gate, program.GATE)] if gate is not None else []
        try:
            self.child = os.posix_spawn(
                command[0],
                command,
                # So that the runner's own child is found by it until it is the job.
                {TOKEN_VARIABLE: self.token, **(program.GATED if gates else {})},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
                    (os.POSIX_SPAWN_DUP2, announce, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_RDWR, 0),
                    *gates,  # last: the pipe above may have its number
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
        self.announcement = announcement
        self.runner = identify(self.child)
        try:
            self.pidfd = os.pidfd_open(self.child)
        except OSError:
            # Without a descriptor its end would pass unnoticed: end it now. The announcement,
            # which ends with it, makes the daemon look.
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
            self.child = None

    def kill_remains(self) -> list[int]:
        """KILL what a dead runner has left; return descriptors of those that survive that."""
        users = () if self.uid is None else (self.uid,)
        launch, _ = folder.read_record(self.evidence.launch_folder, folder.LAUNCH)
        client_work.remove(launch or {}, lambda: {*self.processes(), *self._members()}, kill=True)
        while True:
            crossed("runner found dead")
            left = kill_tree(self.token, None, self._members(), self.cgroup, users=users)
            crossed("remains killed")
            opened = [fd for fd in map(_pidfd_of, left) if fd is not None]
            if opened or not left:
                return opened

    def processes(self) -> set[int]:
        """The pids of the job's processes; never the runner."""
        grouped = cgroups.processes(self.cgroup) if self.cgroup is not None else set()
        # To look at every process of a full server takes long.
        users = () if self.uid is None else (self.uid,)
        return grouped or attempt_processes(self.token, self.runner, (), users)

    def set_shares(self, group: str, cpus: float | None, weight: float | None) -> None:
        """Limit and weigh the CPUs of the job's processes in this group. Raises `Refused`."""
        if not os.path.isdir(group):
            if cpus is None and weight is None:
                return
            cgroups.make(group)
        if not limits.set_cpus(group, cpus):
            raise Refused(f"the control group {group} takes no limit of CPUs")
        if not limits.set_weight(group, weight):
            raise Refused(f"the control group {group} takes no CPU weight")
        if not limits.gather(group, self.processes):
            raise Refused(f"its processes cannot be moved into the control group {group}")

    def members(self) -> dict[int, Stat]:
        """What the kernel says about the job's processes, by pid; never the runner."""
        if self.cgroup is not None and cgroups.processes(self.cgroup):
            found = {pid: read_stat(pid) for pid in cgroups.processes(self.cgroup)}
            # Looked at again: a pid that has changed hands in between is not in the group.
            still = cgroups.processes(self.cgroup)
            grouped = {pid: stat for pid, stat in found.items() if stat is not None}
            grouped = {p: s for p, s in grouped.items() if p in still and not s.dead}
            if grouped:
                return grouped
        users = () if self.uid is None else (self.uid,)
        return attempt_stats(self.token, self.runner, (), users)

    def _members(self) -> Iterator[int]:
        """Processes of the attempt that are known even without its token."""
        yield from self.seen()
        if self.token is not None:
            for container in Containers().of_attempt(self.token):
                yield from container.members
        job = self.evidence.job()
        if job is not None and alive(job):
            yield job.pid


def close_gate(gate: int | None) -> None:
    """Close the daemon's copy of a gate's end."""
    if gate is not None:
        os.close(gate)


def readable(fd: int | None) -> bool:
    """True when a pidfd's process has ended, or a pipe holds something or has ended."""
    if fd is None:
        return False
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(0))


def _pidfd_of(pid: int) -> int | None:
    identity = identify(pid)
    return open_pidfd(identity) if identity is not None else None
