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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from math import isfinite

from radrm.host.gpus.source import OwnerOf
from radrm.host.mps.control import FAULT, MULTIUSER, PROGRAM, Control, Missing, NoAnswer, Server
from radrm.host.mps.launches import Launches, Phase, Seen, last_fault, note_fault
from radrm.host.processes.identity import Identity, identify, open_pidfd, send_signal
from radrm.host.processes.tree import dies_of
from radrm.structs import replace

log = logging.getLogger("radrm")


# ------------------------------------------------------------------
# Find out whether an MPS server takes clients of several users at a time.
#
# Theory of operation. `mps.multiuser` asks for that, and only a control daemon of root obeys. Old
# control daemons refuse the option. Others accept it but still serve one user after another. So
# radrm trusts only what it sees. A server that belongs to root and has a client of another user
# takes several users; a server that belongs to that user takes one. What was seen is true for the
# life of the control daemon (`Identity`: a reused pid is another one). The keeper's thread calls
# the methods; the service may mark a reason before that thread starts, and other threads only read
# `single_user_reason`. A restart looks again.


class Users:
    """The users of one control daemon's servers.

    `name` is the name of the control daemon in the log. `logged` holds the reasons that are in
    the log already; the control daemons of all GPUs share it.
    """

    def __init__(self, name: str, control: Control, logged: set[str]) -> None:
        self.single_user_reason: str | None = None
        """Why the servers take one user at a time, although `mps.multiuser` is set."""
        self._name = name
        self._control = control
        self._logged = logged
        self._seen: tuple[Identity, bool] | None = None
        """A control daemon, and whether its servers take several users, as seen."""
        self._started: tuple[Identity, bool] | None = None
        """The control daemon that this daemon started, and whether it accepted the option."""

    @property
    def may_share(self) -> bool:
        """True unless it is known that its servers take one user at a time."""
        return self._control.multiuser and self.single_user_reason is None

    def started(self, who: Identity) -> None:
        """Note that this daemon started a control daemon."""
        self._started = (who, self._control.has_multiuser_option())

    def differs_from_settings(self, who: Identity) -> bool:
        """Return whether an earlier daemon started it with another value of `mps.multiuser`."""
        if self._started is not None and self._started[0] == who:
            return False
        return self._control.has_multiuser_option() is not self._control.multiuser

    def multiuser(self, who: Identity, servers: Iterable[Server]) -> bool:
        """Return whether its servers were seen to take several users."""
        if not self._control.multiuser:
            return False
        if self._seen is None or self._seen[0] != who:
            found = next((s.multiuser for s in servers if s.multiuser is not None), None)
            if self._started == (who, False):
                found = False
                self.mark_single_user(f"this {PROGRAM} does not know {MULTIUSER[0]}")
            elif found is False:
                self.mark_single_user("its MPS server still takes one user at a time")
            if found is None:
                return False
            self._seen = (who, found)
            if found:
                self.single_user_reason = None
                log.info("MPS of %s takes jobs of several users at a time", self._name)
        return self._seen[1]

    def mark_single_user(self, reason: str) -> None:
        """Note why several users cannot be served at a time; log each reason once."""
        self.single_user_reason = f"mps.multiuser has no effect: {reason}"
        if reason not in self._logged:
            self._logged.add(reason)
            log.warning(
                "mps.multiuser has no effect: %s (%s); users take turns on a GPU's MPS server",
                *(reason, self._name),
            )


# ------------------------------------------------------------------
# End a control daemon, and the clients that a fault has left. The keeper decides when.
#
# `quit` lets a control daemon end after its last client. Its servers may need seconds for the
# contexts of eight GPUs, so it is killed only after `QUIT_S`.


QUIT_S, FORCED_QUIT_S = 15.0, 2.0
"""Real seconds that a control daemon has to end: without clients, and by force with them."""


class Endings:
    """`name` is the control daemon's name in the log, `wake` the eventfd that wakes its keeper."""

    def __init__(self, name: str, control: Control, wake: int) -> None:
        self._name = name
        self._control = control
        self._wake = wake

    def end(self, servers: Iterable[Server], forced: bool, hurry: Callable[[], bool]) -> bool:
        """Ask it to end; kill it and these servers if they do not end in time.

        False if it runs on: without `forced`, clients have come meanwhile, and it ends after them.
        `hurry` ends the wait: the daemon ends, or force was ordered.
        """
        who = self._control.process()
        pidfd = open_pidfd(who) if who is not None else None
        deadline = time.monotonic() + (FORCED_QUIT_S if forced else QUIT_S)
        try:
            self._control.quit(deadline - time.monotonic())
            if pidfd is not None and not self._ends_before(deadline, pidfd, hurry):
                if not forced and (hurry() or self._has_clients()):
                    return False
                log.warning("MPS of %s: no end after `quit`; radrm kills it", self._name)
        except NoAnswer:
            pass
        finally:
            if pidfd is not None:
                os.close(pidfd)
        self._control.kill(server.pid for server in servers)
        return True

    def _ends_before(self, deadline: float, pidfd: int, hurry: Callable[[], bool]) -> bool:
        poller = select.poll()
        for fd in (pidfd, self._wake):
            poller.register(fd, select.POLLIN)
        while not hurry():
            left_s = max(0.0, deadline - time.monotonic())
            ready = [fd for fd, _ in poller.poll(left_s * 1000)]
            if pidfd in ready or not ready:
                return pidfd in ready
            with suppress(BlockingIOError):
                os.eventfd_read(self._wake)
        return False

    def _has_clients(self) -> bool:
        try:
            return any(server.clients for server in self._control.probe())
        except NoAnswer:
            return False

    def terminate(
        self, servers: Iterable[Server], meant: Callable[[int], bool] = lambda pid: True
    ) -> None:
        """Remove the work of these servers' clients; of those that are meant."""
        for server in servers:
            for client in filter(meant, server.clients):
                try:
                    self._control.terminate_client(server.pid, client)
                except NoAnswer as error:
                    log.warning("MPS of %s: %s", self._name, error)
                    return

    def signal(self, servers: Iterable[Server], owner_of: OwnerOf, number: signal.Signals) -> None:
        """Signal the clients that belong to jobs, and no other process."""
        for pid in [pid for server in servers for pid in server.clients]:
            who, owner = identify(pid), owner_of(pid)
            if who is not None and owner is not None:
                log.warning(
                    "MPS of %s: process %d of job %d gets %s: it remains after a fault",
                    *(self._name, pid, owner[0], number.name),
                )
                send_signal(pid, who.start_ticks, number)


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
        self._faulted_at = last_fault(control.logs)
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
        return isfinite(self._faulted_at) and time.monotonic() - self._faulted_at <= seconds

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
        self._faulted_at = note_fault(self.control.logs)
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
