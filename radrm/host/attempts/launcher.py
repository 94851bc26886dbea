"""Start attempts, adopt those of an earlier daemon, signal them, and learn their end.

Theory of operation. The launcher's memory is a cache: everything that must survive is in the
attempts' folders (`folder.py`), and `adopt` makes the memory anew from there. Runner and
daemon compete for the claim by `O_EXCL`, so there are never two live attempts of a job, and a
daemon that wins the claim knows that no runner ever will. A pidfd, or a byte of the runner, says
that it is time to look; the record says what happened. The launcher decides nothing about jobs.
Used by the daemon's one thread, except `owner_of`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from radrm.errors import Refused
from radrm.host.attempts import folder as attempts
from radrm.host.attempts import waiting as handover
from radrm.host.attempts.containers import Containers
from radrm.host.attempts.evidence import (
    Ended,
    Evidence,
    Freed,
    Lost,
    Running,
    Saved,
    Started,
    State,
    Void,
    read_saved,
)
from radrm.host.attempts.forking import Forker, Runner
from radrm.host.attempts.live import Asker, Ending, Live, close_gate
from radrm.host.attempts.owners import PidOwners
from radrm.host.attempts.plan import (
    LaunchPlan,
    cannot_launch,
    launch_record,
    remove_groups,
    step_of,
)
from radrm.host.attempts.waiting import StepEvidence
from radrm.host.clock import Clock
from radrm.host.crossings import crossed
from radrm.host.processes import cgroups, limits
from radrm.host.processes.controllers import Controllers
from radrm.host.processes.counted import Counted, counted
from radrm.host.processes.limits import Limits
from radrm.host.storage.files import fsync_folder

_MOST_WAITING = 8
"""Runners that wait for another attempt: each has two MiB of its own."""


class Launcher:
    """The attempts of one daemon.

    `keep` leaves the folders of ended attempts where they are, to be looked into. `controllers`
    are those that limit jobs. `account`: what jobs use of the server is counted, whatever it costs.
    `forker`: what forks the runners; None: each is a new interpreter.
    """

    def __init__(
        self,
        state_dir: str | os.PathLike[str],
        clock: Clock,
        keep: bool = False,
        controllers: Controllers = Controllers(),  # noqa: B008 (it is frozen)
        account: bool = False,
        forker: Forker | None = None,
    ) -> None:
        self.account = account
        self._forker = forker
        self._attempts = os.path.abspath(os.path.join(state_dir, "attempts"))
        self._clock = clock
        self._keep = keep
        self.controllers = controllers
        self._live: dict[int, Live] = {}
        self._ended: dict[int, Live] = {}
        """Those of which `poll` has told the end, until they are forgotten."""
        self._owners = PidOwners(Containers().vouchers)
        self._owners_lock = threading.Lock()
        self._owners_known = True
        """False while `_owners` has not heard of attempts that have come or gone."""
        self._asker = Asker()
        self._waiting: list[Runner] = []
        """Forked runners that have run an attempt, and wait for the next one of its user."""
        self._retiring: list[int] = []
        self._retired: list[int] = []
        self._clears = ThreadPoolExecutor(1, "step-removal")

    # ---------------------------------------------------------------- beginning

    def launch(self, plan: LaunchPlan, ready: Callable[[], None] = lambda: None) -> None:
        """Start the attempt's runner; `poll` tells what becomes of it.

        `ready` does what has to be done before the job's first instruction; a forked runner is at
        work meanwhile. Raises what that raises, and `Refused` or `StoreError`; then there is no
        runner and never will be.
        """
        if plan.argv is None and plan.script is None:
            raise ValueError("a plan has argv, script or both")
        if plan.uid not in (None, os.geteuid()) and os.geteuid() != 0:
            raise Refused(
                f"attempt {plan.serial} is user {plan.user}'s, and this daemon is not root; "
                "submit it to a daemon of that user"
            )
        live, record = self._prepare(plan)
        try:
            if plan.step is not None:
                ready()
                live.hand_over(plan.step, record)
            else:
                gate = live.make_group(plan.prepare) if plan.prepare is not None else None
                try:
                    self._start_runner(live, gate, ready)
                finally:
                    close_gate(gate)
                crossed("runner started")
        except Exception as error:
            if live.cgroup is not None:
                cgroups.remove(live.cgroup)
            self._remove_folder(plan.serial)
            if isinstance(error, OSError):
                raise cannot_launch(plan.serial, error) from error
            raise
        self._live[plan.serial] = live
        self._owners_known = False

    def _start_runner(self, live: Live, gate: int | None, ready: Callable[[], None]) -> None:
        """Have a forked runner run the attempt where there is one, else a new interpreter. Raises
        `OSError`, and what `ready` raises."""
        runner = self._waiting_runner(live.uid)
        if runner is None or not live.order(runner, gate):
            if runner is not None:
                self._retire(runner.pidfd, runner.orders)
            ready()
            live.spawn_runner(gate)
            return
        crossed("runner ordered")
        try:
            ready()
        except Exception:
            runner.give_up()
            raise
        runner.let_begin(live.evidence.folder)

    def _waiting_runner(self, user: int | None) -> Runner | None:
        """One that has run an attempt of this user before, or a new one."""
        if self._forker is None:
            return None
        if not self._forker.is_current:
            self._dismiss(0)
        for runner in self._waiting:
            if runner.user == user and runner.is_free():
                self._waiting.remove(runner)
                return runner
        return self._forker.take()

    def _dismiss(self, most: int) -> None:
        """Let the runners end that wait longest, until no more wait than that."""
        while len(self._waiting) > most:
            runner = self._waiting.pop(0)
            self._retire(runner.pidfd, runner.orders)

    def _prepare(self, plan: LaunchPlan) -> tuple[Live, attempts.Fields]:
        folder = self.folder(plan.serial)
        record = launch_record(plan, self._clock.real_s, self.controllers, self.account)
        try:
            try:
                os.mkdir(folder)
            except FileNotFoundError:
                os.makedirs(self._attempts, 0o711, exist_ok=True)
                os.mkdir(folder)
            crossed("attempt's folder made")
        except OSError as error:
            raise cannot_launch(plan.serial, error) from error
        try:
            # A user of another name has to reach the script, and nothing else, in there.
            os.chmod(folder, 0o700 if plan.uid is None else 0o711)
            # What a power failure takes of it, the store makes up for; but not for a step.
            attempts.write_record(folder, attempts.LAUNCH, record, durably=plan.step is not None)
            if plan.step is not None:
                fsync_folder(self._attempts)
            crossed("attempt prepared")
        except OSError as error:
            self._remove_folder(plan.serial)
            raise cannot_launch(plan.serial, error) from error
        return self._known(plan.serial, plan.job_id, record), record

    def adopt(self, serial: int, job_id: int) -> Void | Running | Ended | Lost:
        """Find out what became of an attempt that an earlier daemon launched, or meant to.

        After `Void` its runner, if it still comes, stands down. After `Lost` nothing of
        it runs. Raises `StoreError` when that cannot be settled now.
        """
        launch, _ = attempts.read_record(self.folder(serial), attempts.LAUNCH)
        live = self._known(serial, job_id, launch or dict.fromkeys(("token", "cgroup", "uid")))
        found = live.evidence.found(None if live.step is None else step_of(launch or {}))
        live.runner, live.pidfd = found.runner, found.pidfd
        if found.state is State.VOID:
            return Void()
        if found.ended is not None:
            return found.ended
        if found.state is State.LOST:
            return live.evidence.lost("the server went down")
        if found.state is State.ORPHANED:
            live.remains = live.kill_remains()
            if not live.remains:
                return live.evidence.lost("its runner was killed")
        live.start_reported = found.started is not None
        self._live[serial] = live
        self._owners_known = False
        return Running(found.started)

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

    def with_news(self, ready: Collection[int]) -> set[int]:
        """The attempts to `poll` when these descriptors can be read."""
        return {
            live.serial
            for live in self._live.values()
            if not live.tells or any(fd in ready for fd in live.fds)
        }

    def poll(self, serial: int) -> Started | Freed | Ended | Lost | None:
        """Return what is new of an attempt; ask again after `Started` and `Freed`. After `Ended`
        and `Lost`, and for an attempt that is not known, nothing is new."""
        live = self._live.get(serial)
        if live is None:
            return None
        gone = live.is_over  # before start.json is looked for
        if not live.listen():
            self._retire(live.announcement)
            live.announcement = None
        if not live.start_reported:
            started = live.evidence.started()
            if started is not None:
                live.start_reported, live.told = True, max(0, live.told - 1)
                if live.step is not None:
                    live.runner = live.step.runner_now()
                    self._owners_known = False
                return started
        if live.freed:
            live.freed = False
            return Freed()
        if gone:
            self._let_go_of_runner(live)
        elif not live.told or live.child is not None:  # a child has to be reaped
            return None
        live.told = 0
        if live.is_being_ended:
            return None
        found: Ended | Lost | None = live.evidence.ended()
        if found is None and gone and self._end_in_time(live):
            found = live.evidence.lost("its runner was killed")
        if found is not None:
            runner = live.release() if isinstance(found, Ended) else None
            if runner is not None:
                self._waiting.append(runner)
                self._dismiss(_MOST_WAITING)
            self._retire(*live.fds)
            self._ended[serial] = self._live.pop(serial)
            self._owners_known = False
        return found

    def _let_go_of_runner(self, live: Live) -> None:
        """Reap a runner that has ended, and retire its descriptor."""
        if live.child is not None:
            os.waitpid(live.child, 0)
            live.child = None
        self._retire(live.pidfd)
        live.pidfd = None

    @property
    def live(self) -> set[int]:
        """The serials of the attempts whose end is not known."""
        return set(self._live)

    def outlives(self, serial: int) -> bool:
        """Return whether something of an attempt still runs that has ended in the store.

        Then it is live here, and `poll` tells its real end. Raises `StoreError` as `adopt` does.
        """
        launch, _ = attempts.read_record(self.folder(serial), attempts.LAUNCH)
        found = self.adopt(serial, launch["job_id"]) if launch is not None else None
        return isinstance(found, Running)

    def is_live(self, serial: int) -> bool:
        """True for an attempt that was launched or adopted and whose end is not known."""
        return serial in self._live

    def owner_of(self, pid: int) -> tuple[int, int] | None:
        """(job id, serial of the attempt) of a process, None for one that radrm did not start.

        May be called from any thread.
        """
        with self._owners_lock:  # most attempts come and go before anybody asks
            if not self._owners_known:
                self._owners_known = True  # first: what changes meanwhile counts the next time
                self._owners.update([live.marks for live in tuple(self._live.values())])
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
        if live is not None:
            live.send(signal.SIGRTMIN + number)

    def ask(self, serial: int, number: int, failed: Callable[[str], None]) -> None:
        """Send signal `number` to the topmost of its processes that handle it; if there is none,
        call `failed` with the reason, from another thread. Raises `Refused`."""
        live = self._live.get(serial)
        if live is None or not live.start_reported:
            raise Refused(f"attempt {serial} {'has ended' if live is None else 'does not run yet'}")
        self._asker.ask(live.members, number, failed)

    def _signal(self, serial: int, number: int) -> None:
        live = self._live.get(serial)
        if live is None:
            return
        if not live.send(number):
            self._end_in_time(live)  # without its runner it is lost, whatever was asked for

    def restore_shares(self, serial: int, cpus: float | None, weight: float | None) -> None:
        """Set the CPU shares of an adopted attempt as its record says.

        A daemon that was killed may have changed them, and not its record.
        """
        live = self._live.get(serial)
        group = live.limits.cpu if live is not None else None
        if group is not None and os.path.isdir(group):
            limits.set_cpus(group, cpus)
            limits.set_weight(group, weight)

    def set_shares(self, serial: int, cpus: float | None, weight: float | None) -> None:
        """Limit and weigh the CPUs of a running attempt (None: no limit; 1). Raises `Refused`."""
        live = self._live.get(serial)
        if live is None or not live.start_reported:
            raise Refused(f"attempt {serial} {'has ended' if live is None else 'does not run yet'}")
        if live.limits.cpu is None:
            raise Refused(self.controllers.why_not("cpu") or "its CPUs cannot be limited")
        live.set_shares(live.limits.cpu, cpus, weight)

    def set_memory(self, serial: int, mib: int, most_mib: int | None) -> bool:
        """Change the limit of host memory of a live attempt; False if it keeps another one."""
        live = self._live.get(serial)
        group = live.limits.memory if live is not None else None
        return group is None or limits.change_memory(group, mib, most_mib)

    def group_of(self, serial: int) -> str | None:
        """The path of the control group of version 2 of a live attempt, which may be missing."""
        live = self._live.get(serial)
        return None if live is None else live.cgroup

    def read_saved(self, serials: Iterable[int]) -> dict[int, Saved]:
        """Return what the jobs of these attempts have saved, by serial. It reads as their users."""
        return read_saved({i: Evidence(self.folder(i), self._clock) for i in serials})

    def counted(self, serial: int) -> Counted:
        """What the control groups of a live attempt have counted so far."""
        live = self._live.get(serial)
        return Counted() if live is None else counted(live.cgroup, live.limits)

    def logs(self, serial: int) -> set[str]:
        """Return the paths of an attempt's logs; empty if its launch record cannot be read."""
        launch, _ = attempts.read_record(self.folder(serial), attempts.LAUNCH)
        if launch is None:
            return set()
        paths = (os.path.join(launch["cwd"], launch[which]) for which in ("stdout", "stderr"))
        return {os.path.normpath(path) for path in paths if not path.startswith("/dev/")}

    def stored(self, serial: int) -> None:
        """The end of this attempt is stored: its runner need not sync the record of it."""
        for runner in self._waiting:
            if runner.serial == serial:
                runner.say_stored(self.folder(serial))

    def forget(self, serial: int) -> None:
        """Remove the folder of an attempt whose end is stored."""
        if serial in self._live:
            raise ValueError(f"attempt {serial} has not ended")
        live = self._ended.pop(serial, None)
        if live is None:
            launch, _ = attempts.read_record(self.folder(serial), attempts.LAUNCH)
            remove_groups(
                None if launch is None else launch["cgroup"], Limits.of(launch, serial), serial
            )
        else:
            remove_groups(live.cgroup, live.limits, serial)
        if not self._keep:
            self._remove_folder(serial, live is None or live.step is not None)

    def is_of_earlier_boot(self, serial: int) -> bool:
        """True if nothing of an attempt can run: the server has started since its folder was
        used."""
        return Evidence(self.folder(serial), self._clock).is_of_earlier_boot

    def serials(self) -> list[int]:
        """The attempts that have a folder, live or to be forgotten."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(int(name) for name in os.listdir(self._attempts) if name.isdigit())
        return []

    def close(self) -> None:
        """Let go of all attempts; they run on."""
        self._clears.shutdown(cancel_futures=True)
        self._dismiss(0)
        live = [fd for live in self._live.values() for fd in live.fds]
        for fd in [*self._retired, *self._retiring, *live]:
            os.close(fd)
        self._retired, self._retiring, self._live = [], [], {}

    # ---------------------------------------------------------------- small things

    def _end_in_time(self, live: Live) -> bool:
        """KILL what a dead runner has left, in a thread; False until all of it is gone."""
        if live.state is not State.ORPHANED and not live.is_being_ended:
            self._leave(live, Ending(live.kill_remains))
        if not isinstance(live.remains, Ending) or live.is_being_ended:
            return False
        ending = live.remains
        self._leave(live, [])
        live.remains = ending.survivors()
        return not live.remains

    def _leave(self, live: Live, remains: Ending | list[int]) -> None:
        """Let this be what a dead runner has left, in place of what was."""
        self._retire(*live.fds_of_remains)
        live.remains = remains

    def _retire(self, *fds: int | None) -> None:
        self._retiring += [fd for fd in fds if fd is not None]

    def folder(self, serial: int) -> str:
        """The path of the folder of an attempt, which may be missing."""
        return f"{self._attempts}/{serial}"

    def _remove_folder(self, serial: int, of_step: bool = True) -> None:
        """Remove what radrm wrote there, and the folder if that was all. `of_step`: a step may have
        a folder in it."""
        with contextlib.suppress(OSError):
            try:
                if of_step:
                    handover.remove(self.folder(serial))
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
                self._clears.submit(self._clear, serial)
                return
            attempts.remove_folder(self._attempts, str(serial))

    def _clear(self, serial: int) -> None:
        """Remove an ended attempt's folder with what the step's user has left in it."""
        handover.clear_rest(self.folder(serial))
        with contextlib.suppress(OSError):  # the next daemon tries again
            handover.remove(self.folder(serial))
            attempts.remove_folder(self._attempts, str(serial))

    def _known(self, serial: int, job_id: int, launch: dict[str, Any]) -> Live:
        folder, step = self.folder(serial), step_of(launch)
        evidence, of_step = Evidence(folder, self._clock), None
        if step is not None:
            uid = os.geteuid() if launch["uid"] is None else launch["uid"]
            evidence = of_step = StepEvidence(folder, self._clock, uid, step)
        marks = launch["token"], launch["cgroup"], launch["uid"]
        seen = partial(self._owners.seen_of, (job_id, serial))
        return Live(serial, job_id, evidence, *marks, Limits.of(launch, serial), seen, step=of_step)
