"""Keep one control daemon alive and working, in its own thread.

Theory of operation. Only this thread starts and ends the control daemon; `clients` may ask it,
too. Others read `seen`, one immutable record that is replaced as a whole. They call `suspect`,
`turn_on` and `turn_off`, which set a wish and wake the thread. The last two also replace `seen`
at once; the next look corrects it. `round` looks once and does what is due. It receives the time,
so tests need no clock. A restart adopts the running control daemon; its delays and grace times
start again.

Crash: the control daemon is restarted after 1 s, then after delays that double up to a minute.

Fault: a fatal error of one client ends the work of all clients of its server. The server takes no
client until the last one has ended (MPS guide, "MPS error containment"). So its GPUs take no job.
Clients that remain get TERM after one grace time and KILL after two. After three the control
daemon is restarted. The work of those that a signal ends is removed first (`clients`).

End: a control daemon that is not wanted any more gets `quit` (`endings`).
"""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from radrm.host.gpus.source import OwnerOf
from radrm.host.mps.control import FAULT, Control, Missing, NoAnswer, Server
from radrm.host.mps.endings import QUIT_S, Endings
from radrm.host.mps.launches import Launches
from radrm.host.mps.seen import Phase, Seen
from radrm.host.mps.users import Users
from radrm.host.processes.identity import Identity, identify, open_pidfd
from radrm.host.processes.tree import dies_of

log = logging.getLogger("radrm")

PROBE_S = 5.0
"""Seconds between two looks at a control daemon."""
MOST_DELAY_S = 60.0
"""Longest delay between two tries to start a control daemon."""
STEADY_S = 120.0
"""Seconds of life after which earlier failures no longer count."""
FAILURES = 3
"""Failures, less than `STEADY_S` of life apart, after which its GPUs work without MPS."""
SILENCES = 3
"""Consecutive unanswered probes after which it is replaced."""
SOON_S = 0.25
"""Seconds between two looks while something is awaited of it."""


class Keeper:
    """Keeps the control daemon of one pipe directory running if it is `wanted`, else ended.

    `name` is its name in messages ("GPU 3"). `begin` starts the thread. `owner_of` finds the job
    of a process; `changed` is called after every change that matters to others. `logged` holds
    the reasons that a keeper has logged, so that no other repeats them.
    """

    def __init__(
        self, name: str, control: Control, wanted: bool, logged: set[str] | None = None
    ) -> None:
        self.name = name
        self.control = control
        self.users = Users(name, control, logged if logged is not None else set())
        self.seen = Seen(Phase.OFF) if not wanted else self._before()
        self._wanted = wanted
        self._forced = False
        self._grace_s = 30.0
        self._owner_of: OwnerOf = lambda pid: None
        self._changed: Callable[[], None] = lambda: None
        self._failures = 0
        self._silences = 0
        self._start_at = 0.0
        self._up_since: float | None = None
        self._fault_since: float | None = None
        self._fault_step = 0
        self._known: set[Identity] = set()
        """The clients at the last look."""
        self._logged: str | None = None
        self._launches = Launches(name, control)
        self._ending: list[int] = []
        """The jobs whose clients are being ended."""
        self._faulted_at = float("-inf")
        self._suspicions = 0
        self._settled = 0
        """The number of suspicions that a look has settled."""
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._endings = Endings(name, control, self._wake)
        self._closing = False
        self._thread: threading.Thread | None = None

    def _before(self) -> Seen:
        """Return what others see before the first look."""
        missing = self.control.missing()
        return Seen(Phase.STARTING) if missing is None else Seen(Phase.DOWN, missing)

    # -------------------------------------------------------------- from other threads

    def begin(self, owner_of: OwnerOf, changed: Callable[[], None], grace_s: float) -> None:
        """Start the thread. `grace_s` is in real seconds."""
        self._owner_of, self._changed, self._grace_s = owner_of, changed, grace_s
        self._thread = threading.Thread(target=self._run, name=f"mps {self.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread soon; the control daemon runs on."""
        self._closing = True
        self._wake_up()

    def join(self) -> None:
        """Wait up to one second for the thread to end."""
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def suspect(self) -> None:
        """Note that a client failed. Its GPUs take no job until the next look at the server."""
        self._suspicions += 1
        self._wake_up()

    @property
    def suspected(self) -> bool:
        """True if it is not looked at yet since a client failed."""
        return self.serving and self._settled != self._suspicions

    def faulted_within(self, seconds: float) -> bool:
        """Return whether a server of it was seen in FAULT in these last real seconds."""
        return time.monotonic() - self._faulted_at <= seconds

    @contextmanager
    def ending(self, job_id: int) -> Iterator[None]:
        """While clients of a job are ended, its GPUs take no job, and the keeper asks nothing."""
        self._ending.append(job_id)
        self._changed()
        try:
            yield
        finally:
            self._ending.remove(job_id)
            self._wake_up()
            self._changed()

    def wait_for_server(self, uid: int, then: Callable[[], None]) -> bool:
        """Return whether the launch of a client of this user must wait; then call `then` later.

        At most `launches.LIMIT_S`. It does not wait for a control daemon that takes no client.
        """
        if not self.ready:
            return False
        if self.hold is None and self._launches.has_server(uid, self.seen, self.users.may_share):
            return False
        self._launches.add(uid, then)
        self._wake_up()
        self._changed()
        return True

    def _wake_up(self) -> None:
        os.eventfd_write(self._wake, 1)

    @property
    def wanted(self) -> bool:
        """Whether the control daemon should run."""
        return self._wanted

    @property
    def serving(self) -> bool:
        """True if its GPUs are under MPS, even if it takes no client now."""
        return self._wanted and self.seen.serving

    @property
    def ready(self) -> bool:
        """True if it takes clients now."""
        return self._wanted and self.seen.phase is Phase.UP

    @property
    def hold(self) -> str | None:
        """Return why its GPUs take no job now; None if they do."""
        if self.ready and (jobs := self._ending[:1]):
            return f"its MPS server is removing the work of job {jobs[0]}"
        if self.ready and self._settled != self._suspicions:
            return "a client of its MPS server has failed; radrm is checking the server"
        if self.ready and self._launches.waiting:
            return "its MPS server is starting"
        if not self.serving or self.ready:
            return None
        return self.seen.fault or "its MPS control daemon is starting"

    def turn_on(self) -> None:
        """Want it, and forget its failures."""
        self._wanted, self._forced = True, False
        self._failures, self._start_at = 0, 0.0
        if not self.seen.serving:
            self.seen = self._before()
        self._wake_up()

    def turn_off(self, force: bool) -> None:
        """End it after its last client; with `force` end its clients, too."""
        self._wanted, self._forced = False, force
        self.seen = replace(self.seen, phase=Phase.STOPPING, fault=None)
        self._wake_up()

    # -------------------------------------------------------------- the thread

    def _run(self) -> None:
        while not self._closing:
            try:
                delay_s = self.round(time.monotonic())
            except Exception as error:  # an error must not end the thread
                why = f"radrm could not check it: {type(error).__name__}: {error}"
                self._show(Seen(Phase.DOWN, why))
                delay_s = PROBE_S
            self._wait(delay_s)

    def _wait(self, delay_s: float) -> None:
        """Wait for the delay, the end of the control daemon, or a wake-up by another thread."""
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        who = self.control.process()
        try:
            pidfd = open_pidfd(who) if who is not None else None
        except OSError:
            pidfd = None
        if pidfd is not None:
            poller.register(pidfd, select.POLLIN)
        poller.poll(max(0.0, delay_s) * 1000)
        if pidfd is not None:
            os.close(pidfd)
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake)

    # -------------------------------------------------------------- one look

    def round(self, now: float) -> float:
        """Look, do what is due, and return the seconds until the next look."""
        if self._ending:
            return SOON_S  # for a limited time (`clients.LIMIT_S`)
        suspicions = self._suspicions
        delay_s = self._look(now)
        if self._settled != suspicions:
            self._settled = suspicions
            self._changed()
        if self._launches.waiting:
            seen = self.seen if self.ready else None
            if self._launches.look(now, seen, self.users.may_share):
                return min(delay_s, SOON_S)
            self._changed()
        return delay_s

    def _look(self, now: float) -> float:
        who = self.control.process()
        if not self._wanted:
            return self._off(who)
        if who is None:
            return self._start(now)
        try:
            servers = self.control.probe()
        except NoAnswer as error:
            return self._silent(now, error)
        self._silences = 0
        self._known = {i for s in servers for p in s.clients if (i := identify(p))}
        if any(server.status == FAULT for server in servers):
            return self._faulty(now, who, servers)
        self._fault_since = None
        if self._up_since is None:
            self._up_since = now
        if now - self._up_since > STEADY_S:
            self._failures = 0
        serves, other = self.control.serves(), None
        if set(serves) != set(self.control.uuids):
            other = "other GPUs"
        elif self.users.differs_from_settings(who):
            other = "another mps.multiuser"
        if other is not None and not self._known:
            log.info("MPS of %s: an earlier daemon had %s; radrm restarts it", self.name, other)
            self._end(servers)
            return 0.0
        if not self.wanted:
            return 0.0  # another thread turned it off meanwhile
        several = self.users.multiuser(who, servers)
        self._show(Seen(Phase.UP, None, who.pid, servers, serves, several))
        return PROBE_S

    def _start(self, now: float) -> float:
        """Start it, unless that has just failed."""
        self._fault_since = None
        if self._up_since is not None:
            self._up_since = None
            self._failed(now, "its MPS control daemon has ended; radrm restarts it")
        if now < self._start_at:
            return self._start_at - now
        try:
            self.users.started(self.control.start())
        except Missing as error:
            # The service has logged it once for all GPUs.
            self._show(Seen(Phase.DOWN, str(error)), quietly=True)
            return MOST_DELAY_S
        except NoAnswer as error:
            self._failed(now, str(error))
            return self._start_at - now
        return 0.0

    def _failed(self, now: float, why: str) -> None:
        """Note a failure and the time of the next try. After `FAILURES` MPS is down."""
        delay_s = min(MOST_DELAY_S, float(2 ** min(self._failures, 10)))
        self._failures += 1
        self._start_at = now + delay_s
        self._show(Seen(Phase.DOWN if self._failures >= FAILURES else Phase.STARTING, why))

    def _silent(self, now: float, error: NoAnswer) -> float:
        """Note that it runs without answering. Replace it once its last known client has ended."""
        self._silences += 1
        self._show(Seen(Phase.SILENT, f"its MPS control daemon does not work: {error}"))
        if self._silences >= SILENCES and not self._clients_left():
            self.control.kill()
            self._silences = 0
            self._up_since = now  # the next look then counts a crash
        return PROBE_S

    def _faulty(self, now: float, who: Identity, servers: tuple[Server, ...]) -> float:
        self._faulted_at = time.monotonic()
        if self._fault_since is None:
            self._fault_since, self._fault_step = now, 0
        why = (
            "its MPS server is in a fault, and all clients have lost their work; "
            "it takes jobs again after its last client"
        )
        self._show(Seen(Phase.FAULT, why, who.pid, servers))
        faulty = [server for server in servers if server.status == FAULT]
        due = int((now - self._fault_since) / max(self._grace_s, 0.001))
        if due > self._fault_step:
            self._fault_step += 1
            if self._fault_step == 1:
                self._endings.terminate(faulty, lambda pid: dies_of(pid, signal.SIGTERM))
                self._endings.signal(faulty, self._owner_of, signal.SIGTERM)
            elif self._fault_step == 2:
                self._endings.terminate(faulty)
                self._endings.signal(faulty, self._owner_of, signal.SIGKILL)
            else:
                log.error(
                    "MPS of %s: the fault stays after three grace times; radrm restarts it",
                    self.name,
                )
                self._end(servers, forced=True)
                return 0.0
        return min(PROBE_S, max(self._grace_s / 2, 0.05))

    def _off(self, who: Identity | None) -> float:
        """End it, because it is not wanted; by force if that was ordered."""
        if who is None:
            self._up_since, self._silences = None, 0
            self._show(Seen(Phase.OFF))
            return PROBE_S * 12
        try:
            servers = self.control.probe()
        except NoAnswer:
            servers = self.seen.servers
        clients = sum(len(server.clients) for server in servers)
        if self._forced:
            self._endings.terminate(servers)
            self._end(servers, forced=True)
            return 0.0
        waits = f"it ends after its {clients} client{'s' * (clients > 1)}"
        if not clients:
            waits = f"its control daemon is ending, which may take {QUIT_S:g} s"
        self._show(Seen(Phase.STOPPING, waits, who.pid, servers))
        if not clients:
            self._end(servers)
            return 0.0
        return PROBE_S

    def _end(self, servers: tuple[Server, ...], forced: bool = False) -> None:
        if self._endings.end(servers, forced, lambda: self._closing or self._forced > forced):
            self._up_since = self._fault_since = None

    def _clients_left(self) -> bool:
        return any(identify(client.pid) == client for client in self._known)

    # -------------------------------------------------------------- showing

    def _show(self, seen: Seen, *, quietly: bool = False) -> None:
        """Publish the result of a look, and log it if it changed."""
        before, self.seen = self.seen, seen
        if seen.phase is Phase.UP and before.phase is not Phase.UP:
            how = "runs again" if self._logged is not None else "runs"
            log.info("MPS of %s %s: control daemon %s", self.name, how, seen.pid)
        elif seen.fault is not None and seen.fault != self._logged and not quietly:
            level = logging.INFO if seen.phase is Phase.STOPPING else logging.ERROR
            log.log(level, "MPS of %s: %s", self.name, seen.fault)
        self._logged = seen.fault
        if replace(before, servers=()) != replace(seen, servers=()):
            self._changed()
