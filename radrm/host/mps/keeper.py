"""Keeps one control daemon alive and sound, in a thread of its own.

`round` looks once and does what is due; it is given the time, so that tests need no clock.
What others see of it is `seen`, one immutable record put in the last one's place.

A crash: the control daemon is started anew, at once and then ever later. A fault: a fatal
error of one client ends the work of all clients of its server; the server takes nobody until
the last of them has gone (MPS guide, "MPS error containment"). So nobody new is let in; who
has not gone by itself after a grace gets TERM, after another KILL, and when the server does
not come back after a third, the control daemon is started anew.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum

from radrm.host.attempts.processes import Identity, identify, open_pidfd, send_signal
from radrm.host.gpus.source import OwnerOf
from radrm.host.mps.control import FAULT, Control, Missing, NoAnswer, Server
from radrm.host.mps.users import Users

log = logging.getLogger("radrm")

PROBE_S = 5.0
"""Between two looks at a control daemon."""
MOST_DELAY_S = 60.0
"""Between two tries to start one that does not."""
STEADY_S = 120.0
"""One that has lived so long has not failed before."""
FAILURES = 3
"""So often it may fail before its GPUs go on without MPS."""
SILENCES = 3
"""So many questions in a row it may leave without an answer."""


class Phase(str, Enum):
    OFF = "off"
    STARTING = "starting"
    UP = "up"
    FAULT = "fault"
    SILENT = "silent"
    DOWN = "down"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the last look has shown. `trouble` is why not all is well, in words."""

    phase: Phase
    trouble: str | None = None
    pid: int | None = None
    servers: tuple[Server, ...] = ()
    serves: tuple[str, ...] = ()
    """The GPUs that it was started for; empty where that is not known."""
    multiuser: bool = False
    """Its server was seen to take clients of several users."""

    @property
    def clients(self) -> tuple[int, ...]:
        return tuple(pid for server in self.servers for pid in server.clients)

    @property
    def serving(self) -> bool:
        """MPS is there, or soon will be: its GPUs need not go on without it."""
        return self.phase in (Phase.STARTING, Phase.UP, Phase.FAULT, Phase.SILENT)


class Keeper:
    """Keeps the control daemon of one pipe directory as it is `wanted`: alive, or not there.

    `name` is what people call it ("GPU 3"). `begin` starts the thread; `owner_of` tells the
    jobs' processes, `changed` is called after every change that others should look at.
    `said` is what one keeper need not say once another has.
    """

    def __init__(
        self, name: str, control: Control, wanted: bool, said: set[str] | None = None
    ) -> None:
        self.name = name
        self.control = control
        self.users = Users(name, control, said if said is not None else set())
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
        """Clients at the last look."""
        self._said: str | None = None
        self._suspicions = 0
        self._settled = 0
        """So many suspicions have been looked into."""
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._closing = False
        self._thread: threading.Thread | None = None

    def _before(self) -> Seen:
        """What is to be said before the first look."""
        missing = self.control.missing()
        return Seen(Phase.STARTING) if missing is None else Seen(Phase.DOWN, missing)

    # -------------------------------------------------------------- from other threads

    def begin(self, owner_of: OwnerOf, changed: Callable[[], None], grace_s: float) -> None:
        self._owner_of, self._changed, self._grace_s = owner_of, changed, grace_s
        self._thread = threading.Thread(target=self._run, name=f"mps {self.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let go of it, soon: it lives on."""
        self._closing = True
        self._look_soon()

    def join(self) -> None:
        """Wait a moment for the end of what is under way."""
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def suspect(self) -> None:
        """A client has failed: nobody new until it is known whether its server has, too."""
        self._suspicions += 1
        self._look_soon()

    def _look_soon(self) -> None:
        os.eventfd_write(self._wake, 1)

    @property
    def wanted(self) -> bool:
        return self._wanted

    @property
    def serving(self) -> bool:
        """Its GPUs are under MPS, even if it takes no client at this moment."""
        return self._wanted and self.seen.serving

    @property
    def ready(self) -> bool:
        """It takes clients now."""
        return self._wanted and self.seen.phase is Phase.UP

    @property
    def hold(self) -> str | None:
        """Why its GPUs take no job at the moment."""
        if self.ready and self._settled != self._suspicions:
            return "a client of its MPS server has failed; the server is being looked at"
        if not self.serving or self.ready:
            return None
        return self.seen.trouble or "its MPS control daemon is being started"

    def turn_on(self) -> None:
        self._wanted, self._forced = True, False
        self._failures, self._start_at = 0, 0.0
        if not self.seen.serving:
            self.seen = self._before()
        self._look_soon()

    def turn_off(self, force: bool) -> None:
        """`force`: its clients are ended. Otherwise it ends when they have gone."""
        self._wanted, self._forced = False, force
        self.seen = replace(self.seen, phase=Phase.STOPPING, trouble=None)
        self._look_soon()

    # -------------------------------------------------------------- the thread

    def _run(self) -> None:
        while not self._closing:
            try:
                delay_s = self.round(time.monotonic())
            except Exception as error:  # whatever goes wrong here ends at this control daemon
                why = f"looking after it failed: {type(error).__name__}: {error}"
                self._say(Seen(Phase.DOWN, why))
                delay_s = PROBE_S
            self._wait(delay_s)

    def _wait(self, delay_s: float) -> None:
        """Until then, or until the control daemon ends, or somebody wants something of us."""
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
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            pass

    # -------------------------------------------------------------- one look

    def round(self, now: float) -> float:
        """Look, do what is due, and say after how many seconds to look again."""
        suspicions = self._suspicions
        delay_s = self._look(now)
        if self._settled != suspicions:
            self._settled = suspicions
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
        serves = self.control.serves()
        if set(serves) != set(self.control.uuids) and not self._known:
            log.info("MPS of %s: that of an earlier daemon had other GPUs", self.name)
            self._end(servers)
            return 0.0
        if not self._known and self.users.were_others_meant(who):
            log.info("MPS of %s: that of an earlier daemon had other users", self.name)
            self._end(servers)
            return 0.0
        if not self.wanted:
            return 0.0  # turned off while we asked
        several = self.users.several(who, servers)
        self._say(Seen(Phase.UP, None, who.pid, servers, serves, several))
        return PROBE_S

    def _start(self, now: float) -> float:
        """There is none: start it, unless that has just failed."""
        self._fault_since = None
        if self._up_since is not None:
            self._up_since = None
            self._failed(now, "its MPS control daemon has ended; it is started again")
        if now < self._start_at:
            return self._start_at - now
        try:
            self.users.started(self.control.start())
        except Missing as error:
            # Said once for all GPUs, by the service.
            self._say(Seen(Phase.DOWN, str(error)), quietly=True)
            return MOST_DELAY_S
        except NoAnswer as error:
            self._failed(now, str(error))
            return self._start_at - now
        return 0.0

    def _failed(self, now: float, why: str) -> None:
        """Say so, and how soon to try again. After some failures its GPUs go on without."""
        delay_s = min(MOST_DELAY_S, float(2 ** min(self._failures, 10)))
        self._failures += 1
        self._start_at = now + delay_s
        self._say(Seen(Phase.DOWN if self._failures >= FAILURES else Phase.STARTING, why))

    def _silent(self, now: float, error: NoAnswer) -> float:
        """It lives and does not answer. It is replaced once that hurts nobody."""
        self._silences += 1
        self._say(Seen(Phase.SILENT, f"its MPS control daemon is in trouble: {error}"))
        if self._silences >= SILENCES and not self._clients_left():
            self.control.kill()
            self._silences = 0
            self._up_since = now  # as after a crash
        return PROBE_S

    def _faulty(self, now: float, who: Identity, servers: tuple[Server, ...]) -> float:
        if self._fault_since is None:
            self._fault_since, self._fault_step = now, 0
        why = "its MPS server is in a fault: every client's work is lost; it waits for their end"
        self._say(Seen(Phase.FAULT, why, who.pid, servers))
        faulty = [server for server in servers if server.status == FAULT]
        due = int((now - self._fault_since) / max(self._grace_s, 0.001))
        if due > self._fault_step:
            self._fault_step += 1
            if self._fault_step == 1:
                self._signal(faulty, signal.SIGTERM)
            elif self._fault_step == 2:
                self._terminate(faulty)
                self._signal(faulty, signal.SIGKILL)
            else:
                log.error("MPS of %s: the fault does not pass; it is started anew", self.name)
                self._end(servers)
                return 0.0
        return min(PROBE_S, max(self._grace_s / 2, 0.05))

    def _off(self, who: Identity | None) -> float:
        """It is not wanted: have it end, by force where that was ordered."""
        if who is None:
            self._up_since, self._silences = None, 0
            self._say(Seen(Phase.OFF))
            return PROBE_S * 12
        try:
            servers = self.control.probe()
        except NoAnswer:
            servers = self.seen.servers
        clients = sum(len(server.clients) for server in servers)
        if self._forced:
            self._terminate(servers)
            self._end(servers)
            return 0.0
        waits = f"it ends when its {clients} client(s) have ended" if clients else None
        self._say(Seen(Phase.STOPPING, waits, who.pid, servers))
        if not clients:
            self._end(servers)
            return 0.0
        return PROBE_S

    # -------------------------------------------------------------- ending

    def _end(self, servers: tuple[Server, ...]) -> None:
        """Quit; what does not end in time is killed."""
        who = self.control.process()
        pidfd = open_pidfd(who) if who is not None else None
        try:
            self.control.quit()
            if pidfd is not None:
                poller = select.poll()
                poller.register(pidfd, select.POLLIN)
                poller.poll(2000)
        except NoAnswer:
            pass
        finally:
            if pidfd is not None:
                os.close(pidfd)
        self.control.kill(server.pid for server in servers)
        self._up_since = self._fault_since = None

    def _terminate(self, servers: Iterable[Server]) -> None:
        for server in servers:
            for client in server.clients:
                try:
                    self.control.terminate_client(server.pid, client)
                except NoAnswer as error:
                    log.warning("MPS of %s: %s", self.name, error)
                    return

    def _signal(self, servers: list[Server], number: signal.Signals) -> None:
        """To the jobs' own processes alone: others are not ours to end."""
        clients = [pid for server in servers for pid in server.clients]
        for pid in clients:
            who = identify(pid)
            owner = self._owner_of(pid)
            if who is not None and owner is not None:
                log.warning(
                    "MPS of %s: process %d of job %d gets %s: it is left of a fault",
                    *(self.name, pid, owner[0], number.name),
                )
                send_signal(pid, who.start_ticks, number)

    def _clients_left(self) -> bool:
        return any(identify(client.pid) == client for client in self._known)

    # -------------------------------------------------------------- telling

    def _say(self, seen: Seen, *, quietly: bool = False) -> None:
        """Put it where others see it, and into the log when it is news."""
        before, self.seen = self.seen, seen
        if seen.phase is Phase.UP and before.phase is not Phase.UP:
            how = "again" if self._said is not None else "there"
            log.info("MPS of %s is %s: control daemon %s", self.name, how, seen.pid)
        elif seen.trouble is not None and seen.trouble != self._said and not quietly:
            level = logging.INFO if seen.phase is Phase.STOPPING else logging.ERROR
            log.log(level, "MPS of %s: %s", self.name, seen.trouble)
        self._said = seen.trouble
        if replace(before, servers=()) != replace(seen, servers=()):
            self._changed()
