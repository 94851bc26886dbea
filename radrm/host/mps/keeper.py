"""Keep one control daemon alive and working, in its own thread.

Theory of operation. There are two records, each with one writer. `Orders` is what others want:
whether MPS should run, that a client has failed, whose clients are being ended, which launches
wait. Any thread replaces it, under a lock, by `_order`. `Seen` is what the last look has found, and
only the keeper's thread replaces it. It carries the numbers of the orders that it was made for. So
a reader of both can tell whether a look is older than an order, and no thread overwrites what
another has written.

A look (`round`) takes the orders, asks the control daemon, publishes what it has seen, and only
then acts: signals, ends. `_Spell` is how long a phase has lasted, and how much was done in it.
`round` receives the time, so tests need no clock. A restart adopts the running control daemon; its
delays and grace times start again.

    OFF       not wanted, and ended
    STARTING  wanted; it is not there yet, or has just ended. Started after 1 s, then after delays
              that double up to a minute
    UP        takes clients
    SILENT    runs, but does not answer. After `SILENCES` looks it is killed, once its last known
              client has ended
    FAULT     a fatal error of one client has ended the work of all clients of its server. It takes
              no client until the last one has ended (MPS guide, "MPS error containment"). So its
              GPU takes no job. Clients that remain get TERM after one grace time and KILL after
              two; after three the control daemon is restarted. The work of those that a signal
              ends is removed first (`removal`)
    DOWN      `FAILURES` tries were in vain: its GPU works without MPS until one succeeds
    STOPPING  not wanted, but there are clients, or it is ending: it gets `quit` (`Endings`)
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
from functools import partial
from math import isfinite
from typing import Any

from msgspec import Struct

from radrm.host.gpus.source import OwnerOf
from radrm.host.mps.control import FAULT, MULTIUSER, PROGRAM, Control, Missing, NoAnswer, Server
from radrm.host.mps.launches import (
    Launch,
    Launches,
    Phase,
    Seen,
    has_server,
    last_fault,
    note_fault,
)
from radrm.host.processes.identity import Identity, identify, open_pidfd, send_signal
from radrm.host.processes.tree import dies_of
from radrm.structs import replace

log = logging.getLogger("radrm")


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
"""Failures, less than `STEADY_S` of life apart, after which its GPU works without MPS."""
SILENCES = 3
"""Consecutive unanswered probes after which it is replaced."""
SOON_S = 0.25
"""Seconds between two looks while something is awaited of it."""

_RUNNING = (Phase.UP, Phase.SILENT, Phase.FAULT)


class Orders(Struct, frozen=True):
    """What others want of a control daemon."""

    wanted: bool
    forced: bool = False
    """It ends with its clients."""
    turn: int = 0
    """How often it was turned on or off."""
    suspicions: int = 0
    """How many clients have failed."""
    ending: tuple[int, ...] = ()
    """The jobs whose clients are being ended."""
    launches: tuple[Launch, ...] = ()


class _Spell(Struct, frozen=True):
    """A phase since it began. `steps` counts what was done, or seen, in it."""

    phase: Phase
    since: float = 0.0
    steps: int = 0


class _Look(Struct, frozen=True):
    """What a look found, when the next one is due, and what to do after it is published."""

    seen: Seen | None
    delay_s: float
    act: Callable[[], object] | None = None


class Keeper:
    """Keeps the control daemon of one GPU running if it is wanted, else ended.

    `name` is its name in messages ("GPU 3"). `begin` starts the thread. `owner_of` finds the job
    of a process; `changed` is called after every change that matters to others.
    """

    def __init__(self, name: str, control: Control, wanted: bool) -> None:
        self.name = name
        self.control = control
        self.single_user_reason: str | None = None
        """Why the servers take one user at a time, although `mps.multiuser` is set."""
        self._lock = threading.Lock()
        self._orders = Orders(wanted)
        missing = control.missing() if wanted else None
        before = Phase.OFF if not wanted else Phase.DOWN if missing else Phase.STARTING
        self._seen = Seen(before, missing)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._closing = False
        self._owner_of: OwnerOf = lambda pid: None
        self._changed: Callable[[], None] = lambda: None
        self._grace_s = 30.0
        self._thread: threading.Thread | None = None
        # All that follows is the keeper's thread's alone.
        self._spell = _Spell(before)
        self._turn = 0
        self._failures = 0
        self._start_at = 0.0
        self._known: set[Identity] = set()
        """The clients at the last look."""
        self._started: Identity | None = None
        """The control daemon that this daemon has started."""
        self._several: tuple[Identity, bool] | None = None
        """A control daemon, and whether its servers take several users, as seen."""
        self._logged = missing
        self._faulted_at = last_fault(control.logs)
        self._launches = Launches(name, control)
        self._endings = Endings(name, control, self._wake)

    # -------------------------------------------------------------- orders, from other threads

    def begin(self, owner_of: OwnerOf, changed: Callable[[], None], grace_s: float) -> None:
        """Start the thread. `grace_s` is in real seconds."""
        self._owner_of, self._changed, self._grace_s = owner_of, changed, grace_s
        self._thread = threading.Thread(target=self._run, name=f"mps {self.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread soon; the control daemon runs on."""
        self._closing = True
        os.eventfd_write(self._wake, 1)

    def join(self) -> None:
        """Wait up to one second for the thread to end."""
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def turn_on(self) -> None:
        """Want it, and forget its failures."""
        self._order(lambda now: {"wanted": True, "forced": False, "turn": now.turn + 1})

    def turn_off(self, force: bool) -> None:
        """End it after its last client; with `force` end its clients, too."""
        self._order(lambda now: {"wanted": False, "forced": force, "turn": now.turn + 1})

    def suspect(self) -> None:
        """Note that a client failed. Its GPU takes no job until the next look at the server."""
        self._order(lambda now: {"suspicions": now.suspicions + 1})

    @contextmanager
    def ending(self, job_id: int) -> Iterator[None]:
        """While clients of a job are ended, its GPU takes no job, and the keeper asks nothing."""
        self._order(lambda now: {"ending": (*now.ending, job_id)})
        self._changed()
        try:
            yield
        finally:
            self._order(lambda now: {"ending": _without(now.ending, job_id)})
            self._changed()

    def wait_for_server(self, uid: int, then: Callable[[], None]) -> bool:
        """Return whether the launch of a client of this user must wait; then call `then` later.

        At most `launches.LIMIT_S`. It does not wait for a control daemon that takes no client.
        """
        if not self.ready:
            return False
        if self.hold is None and has_server(uid, self.seen, self._may_share):
            return False
        launch = Launch(uid, then)
        self._order(lambda now: {"launches": (*now.launches, launch)})
        self._changed()
        return True

    def _order(self, change: Callable[[Orders], dict[str, Any]]) -> None:
        """Replace the orders, and wake the thread. The only writer of `_orders`."""
        with self._lock:
            self._orders = replace(self._orders, **change(self._orders))
        os.eventfd_write(self._wake, 1)

    # -------------------------------------------------------------- what is known, for any thread

    @property
    def seen(self) -> Seen:
        """The last look; after a later order to start or end it, that it does so."""
        orders, seen = self._orders, self._seen
        if seen.turn == orders.turn:
            return seen
        return replace(seen, phase=Phase.STARTING if orders.wanted else Phase.STOPPING, fault=None)

    @property
    def wanted(self) -> bool:
        """Whether the control daemon should run."""
        return self._orders.wanted

    @property
    def serving(self) -> bool:
        """True if its GPU is under MPS, even if it takes no client now."""
        return self.wanted and self.seen.serving

    @property
    def ready(self) -> bool:
        """True if it takes clients now."""
        return self.wanted and self.seen.phase is Phase.UP

    @property
    def suspected(self) -> bool:
        """True if it is not looked at yet since a client failed."""
        return self.serving and self._seen.settled != self._orders.suspicions

    @property
    def hold(self) -> str | None:
        """Return why its GPU takes no job now; None if it does."""
        orders, seen = self._orders, self.seen
        if self.ready:
            if orders.ending:
                return f"its MPS server is removing the work of job {orders.ending[0]}"
            if self.suspected:
                return "a client of its MPS server has failed; radrm is checking the server"
            return "its MPS server is starting" if orders.launches else None
        return seen.fault or "its MPS control daemon is starting" if self.serving else None

    def faulted_within(self, seconds: float) -> bool:
        """Return whether a server of it was seen in FAULT in these last real seconds."""
        return isfinite(self._faulted_at) and time.monotonic() - self._faulted_at <= seconds

    # -------------------------------------------------------------- the thread

    def _run(self) -> None:
        while not self._closing:
            try:
                delay_s = self.round(time.monotonic())
            except Exception as error:  # an error must not end the thread
                why = f"radrm could not check it: {type(error).__name__}: {error}"
                self._show(Seen(Phase.DOWN, why), self._orders)
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
        """Look, publish it, do what is due, and return the seconds until the next look."""
        orders = self._orders
        if orders.ending:
            return SOON_S  # for a limited time (`service.LIMIT_S`)
        if orders.turn != self._turn:
            self._turn, self._failures, self._start_at = orders.turn, 0, 0.0
        look = self._look(now, orders)
        if look.seen is not None:
            self._show(look.seen, orders)
        if look.act is not None:
            look.act()
        return self._go_on(now, look.delay_s)

    def _go_on(self, now: float, delay_s: float) -> float:
        """Let the launches go on whose server is there; return when to look again."""
        waiting = self._orders.launches
        if not waiting:
            return delay_s
        ready = self._launches.take(
            waiting, now, self.seen if self.ready else None, self._may_share
        )
        self._order(lambda now: {"launches": tuple(e for e in now.launches if e not in ready)})
        for launch in ready:
            launch.then()
        if len(ready) < len(waiting):
            return min(delay_s, SOON_S)
        self._changed()
        return delay_s

    def _look(self, now: float, orders: Orders) -> _Look:
        who = self.control.process()
        if not orders.wanted:
            return self._off(now, who, orders.forced)
        if who is None:
            return self._start(now)
        try:
            servers = self.control.probe()
        except NoAnswer as error:
            return self._silent(now, error)
        self._known = {i for s in servers for p in s.clients if (i := identify(p))}
        if any(server.status == FAULT for server in servers):
            return self._faulty(now, who, servers)
        if now - self._in(Phase.UP, now).since > STEADY_S:
            self._failures = 0
        foreign = who != self._started and self._has_option is not self.control.multiuser
        if foreign and not self._known:
            log.info("MPS of %s: its mps.multiuser was another; radrm restarts it", self.name)
            return _Look(None, 0.0, partial(self._end, servers, False))
        several = self._takes_several(who, servers)
        return _Look(Seen(Phase.UP, None, who.pid, servers, several), PROBE_S)

    def _start(self, now: float) -> _Look:
        """Start it, unless that has just failed."""
        if self._spell.phase in _RUNNING:
            return self._failed(now, "its MPS control daemon has ended; radrm restarts it")
        if now < self._start_at:
            return _Look(None, self._start_at - now)
        try:
            self._started = self.control.start()
        except Missing as error:
            self._logged = str(error)  # the service has logged it, once for all GPUs
            return _Look(Seen(Phase.DOWN, str(error)), MOST_DELAY_S)
        except NoAnswer as error:
            return self._failed(now, str(error))
        return _Look(None, 0.0)

    def _failed(self, now: float, why: str) -> _Look:
        """Note a failure and the time of the next try. After `FAILURES` MPS is down."""
        delay_s = min(MOST_DELAY_S, float(2 ** min(self._failures, 10)))
        self._failures += 1
        self._start_at = now + delay_s
        phase = Phase.DOWN if self._failures >= FAILURES else Phase.STARTING
        self._in(phase, now)
        return _Look(Seen(phase, why), delay_s)

    def _silent(self, now: float, error: NoAnswer) -> _Look:
        """Note that it runs without answering. Replace it once its last known client has ended."""
        why = f"its MPS control daemon does not work: {error}"
        over = self._step(Phase.SILENT, now) >= SILENCES
        left = any(identify(client.pid) == client for client in self._known)
        act = self.control.kill if over and not left else None
        return _Look(Seen(Phase.SILENT, why), PROBE_S, act)

    def _faulty(self, now: float, who: Identity, servers: tuple[Server, ...]) -> _Look:
        self._faulted_at = note_fault(self.control.logs)
        why = (
            "its MPS server is in a fault, and all clients have lost their work; "
            "it takes jobs again after its last client"
        )
        seen = Seen(Phase.FAULT, why, who.pid, servers)
        spell = self._in(Phase.FAULT, now)
        delay_s = min(PROBE_S, max(self._grace_s / 2, 0.05))
        if int((now - spell.since) / max(self._grace_s, 0.001)) <= spell.steps:
            return _Look(seen, delay_s)
        faulty = [server for server in servers if server.status == FAULT]
        step = self._step(Phase.FAULT, now)
        if step > 2:
            log.error(
                "MPS of %s: the fault stays after three grace times; radrm restarts it", self.name
            )
            return _Look(seen, 0.0, partial(self._end, servers, True))
        return _Look(seen, delay_s, partial(self._end_clients, faulty, kill=step == 2))

    def _end_clients(self, faulty: Iterable[Server], kill: bool) -> None:
        dies = (lambda pid: True) if kill else partial(dies_of, number=signal.SIGTERM)
        self._endings.terminate(faulty, dies)
        self._endings.signal(faulty, self._owner_of, signal.SIGKILL if kill else signal.SIGTERM)

    def _off(self, now: float, who: Identity | None, forced: bool) -> _Look:
        """End it, because it is not wanted; by force if that was ordered."""
        if who is None:
            self._in(Phase.OFF, now)
            return _Look(Seen(Phase.OFF), PROBE_S * 12)
        try:
            servers = self.control.probe()
        except NoAnswer:
            servers = self._seen.servers
        clients = sum(len(server.clients) for server in servers)
        if clients and not forced:
            waits = f"it ends after its {clients} client{'s' * (clients > 1)}"
            return _Look(Seen(Phase.STOPPING, waits, who.pid, servers), PROBE_S)
        waits = f"its control daemon is ending, which may take {QUIT_S:g} s"

        def act() -> None:
            if forced:
                self._endings.terminate(servers)
            self._end(servers, forced)

        return _Look(Seen(Phase.STOPPING, waits, who.pid, servers), 0.0, act)

    def _end(self, servers: tuple[Server, ...], forced: bool) -> None:
        if self._endings.end(
            servers, forced, lambda: self._closing or self._orders.forced > forced
        ):
            self._spell = _Spell(Phase.STARTING)  # its end is no failure

    # -------------------------------------------------------------- phases

    def _in(self, phase: Phase, now: float) -> _Spell:
        """Be in this phase; return since when."""
        if self._spell.phase is not phase:
            self._spell = _Spell(phase, now)
        return self._spell

    def _step(self, phase: Phase, now: float) -> int:
        """Take one more step in this phase; return their number."""
        spell = self._in(phase, now)
        self._spell = replace(spell, steps=spell.steps + 1)
        return self._spell.steps

    def _show(self, seen: Seen, orders: Orders) -> None:
        """Publish the result of a look at these orders, and log it if it changed."""
        before, self._seen = self._seen, replace(seen, turn=orders.turn, settled=orders.suspicions)
        if seen.phase is Phase.UP and before.phase is not Phase.UP:
            how = "runs again" if self._logged is not None else "runs"
            log.info("MPS of %s %s: control daemon %s", self.name, how, seen.pid)
        elif seen.fault is not None and seen.fault != self._logged:
            level = logging.INFO if seen.phase is Phase.STOPPING else logging.ERROR
            log.log(level, "MPS of %s: %s", self.name, seen.fault)
        self._logged = seen.fault
        if replace(before, servers=()) != replace(self._seen, servers=()):
            self._changed()

    # -------------------------------------------------------------- users
    #
    # `mps.multiuser` asks for servers that take clients of several users at a time, and only a
    # control daemon of root obeys. Old control daemons refuse the option. Others accept it but
    # still serve one user after another. So radrm trusts only what it sees: a server of root that
    # has a client of another user takes several; a server of that user takes one. What was seen is
    # true for the life of the control daemon (`Identity`: a reused pid is another one).

    @property
    def _may_share(self) -> bool:
        """True unless it is known that its servers take one user at a time."""
        return self.control.multiuser and self.single_user_reason is None

    @property
    def _has_option(self) -> bool:
        return self.control.has_multiuser_option()

    def _takes_several(self, who: Identity, servers: Iterable[Server]) -> bool:
        """Return whether its servers were seen to take several users."""
        if not self.control.multiuser:
            return False
        if self._several is None or self._several[0] != who:
            found = next((s.multiuser for s in servers if s.multiuser is not None), None)
            if who == self._started and not self._has_option:
                found = False
                self.mark_single_user(f"this {PROGRAM} does not know {MULTIUSER[0]}")
            elif found is False:
                self.mark_single_user("its MPS server still takes one user at a time")
            if found is None:
                return False
            self._several = (who, found)
            if found:
                self.single_user_reason = None
                log.info("MPS of %s takes jobs of several users at a time", self.name)
        return self._several[1]

    def mark_single_user(self, reason: str) -> None:
        """Note why several users cannot be served at a time, and log it once."""
        whole = f"mps.multiuser has no effect: {reason}"
        if self.single_user_reason != whole:
            self.single_user_reason = whole
            log.warning("%s (%s); users take turns on a GPU's MPS server", whole, self.name)


def _without(things: tuple[Any, ...], thing: Any) -> tuple[Any, ...]:
    """Return the tuple without the first thing that equals this one."""
    at = things.index(thing)
    return things[:at] + things[at + 1 :]
