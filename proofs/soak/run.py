"""The schedule: jobs all the time, faults and hostile acts by chance, a sample each minute.

Theory of operation. One thread in one process, so that it may fork. Nothing waits for long but the
start of a daemon. Each minute ends with some quiet seconds: no fault and no hostile act begins, so
that a sample shows what the daemon keeps, not what it does. At the end all that was broken is
repaired, all jobs are let come to an end, and what is left is counted: with the daemon, then
without it.
"""

from __future__ import annotations

import heapq
import itertools
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from proofs.processes import Process, descendants
from proofs.server import reservations
from proofs.soak import samples
from proofs.soak.daemon import Daemon, is_driver, is_forker, is_worker
from proofs.soak.faults import FAULTS, Fault, begin
from proofs.soak.ground import Ground
from proofs.soak.hostile import ACTS, Act
from proofs.soak.jobs import KINDS, PROBE, draw
from proofs.soak.ledger import Ledger, Line, unfinished, witnessed
from proofs.soak.prober import probe
from proofs.soak.samples import Sample
from proofs.soak.users import command, spawn, submit
from proofs.soak.verdict import Latency, Window
from radrm.daemon.intake.envelopes import user_name
from radrm.errors import RadrmError

JOBS_PER_S = 2.0
SUBMIT_EVERY_S = 2.0
MOST_OPEN = 60
"""Jobs that have not ended: with more, nothing is submitted."""
STORM = (0.2, 0.4)
"""The part of the soak in which the daemon is killed."""
ACT_EVERY_S = 8.0
COMMAND_EVERY_S = 4.0
SETTLE_S = 3.0
"""After a fault the daemon has so long until its latency counts again."""
_AGAIN_S = 1.0
"""When a fault is tried again that found nothing to break."""
END_S = 180.0
"""How long the last jobs may take once nothing is broken any more."""


@dataclass(slots=True)
class Seen:
    """All that a soak has seen."""

    began_s: float
    alone: bool = False
    """One user is everybody, so his own floods keep him waiting."""
    ledger: Ledger = field(default_factory=Ledger)
    samples: list[Sample] = field(default_factory=list)
    idle: tuple[Sample, Sample] | None = None
    faults: Counter[str] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    commands: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    """Batches of submissions that ended with a refusal: the disk was full."""
    kills: list[tuple[float, str]] = field(default_factory=list)
    """When (seconds since the epoch), and which process."""
    windows: list[Window] = field(default_factory=list)
    latencies: list[Latency] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    submitted_until_s: float = 0.0
    memory: dict[str, tuple[int, int]] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    reserved: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """What was wrong with the daemon itself."""


class Soak:
    """One soak of `seconds` real seconds. `tell` gets a line each minute."""

    def __init__(
        self, ground: Ground, seconds: float, seed: int, tell: Callable[[str], None]
    ) -> None:
        self.daemon = Daemon(ground)
        self.chance = random.Random(seed)
        self.full_until_s = 0.0
        self.seen = Seen(time.time(), alone=not ground.system)
        self._ground = ground
        self._seconds = seconds
        self._tell = tell
        self._minute_s = min(60.0, max(8.0, seconds / 15))
        self._quiet_s = min(8.0, self._minute_s / 4)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._repairs: dict[int, Callable[[], None]] = {}
        self._number = itertools.count()
        self._own: set[int] = set()
        self._open = 0
        self._kinds = list(KINDS)
        """Kinds that come next, so that each comes at least once."""
        self._acts: list[str] = []
        self._act_every_s = min(ACT_EVERY_S, seconds / 20)
        self._faults = [fault for fault in FAULTS if ground.system or not fault.own_disk]
        self.seen.faults.update({fault.name: 0 for fault in self._faults})

    # ------------------------------------------------------------- what faults may use

    def later(self, seconds: float, undo: Callable[[], None]) -> None:
        number = next(self._number)
        self._repairs[number] = undo
        self._after(seconds, lambda: self._repair(number))

    def disturb(self, seconds: float) -> None:
        now = time.time()
        self.seen.windows.append((now + min(0.0, seconds), now + max(0.0, seconds) + SETTLE_S))

    def note_kill(self, victim: str) -> None:
        self.seen.kills.append((time.time(), victim))

    def complain(self, finding: str) -> None:
        self.seen.wrong.append(finding)

    def own(self, pid: int) -> None:
        self._own.add(pid)

    # ------------------------------------------------------------- the course

    def run(self) -> Seen:
        """Run all of it. Returns what was seen."""
        seen, ground = self.seen, self._ground
        self.daemon.start()
        before = self.daemon.used_mib()
        first = self._sample()
        seen.began_s = time.time()
        end_s = seen.submitted_until_s = seen.began_s + self._seconds
        user = ground.users[0]
        prober = spawn(user, lambda: probe(ground, user, end_s))
        for fault in self._faults:
            self._after(self._first_s(fault), lambda fault=fault: self._break(fault, end_s))
        self._after(2.0, lambda: self._act(end_s))
        self._after(5.0, lambda: self._command(end_s))
        self._after(0.5, lambda: self._submit(end_s))
        self._after(self._minute_s, lambda: self._look(end_s))
        while self._events and self._events[0][0] < end_s:
            self._turn()
        _patiently(self._repaired, 60.0)  # a frozen daemon would keep the prober waiting
        os.waitpid(prober, 0)
        self._finish(first, before)
        return seen

    def _turn(self) -> None:
        """Wait for the next event, and do it."""
        at_s, _, what = heapq.heappop(self._events)
        time.sleep(max(0.0, at_s - time.time()))
        self._reap()
        if self.daemon.ended is not None:
            self._start_again()
        what()

    def _start_again(self) -> None:
        """Start a daemon that has ended, as a service manager does. It may refuse to start on a
        full disk; anything else is a finding."""
        if self.daemon.silent and time.time() < self.full_until_s:
            self.seen.commands["start on a full disk, refused"] += 1
        else:
            self.seen.wrong.append(f"the daemon ended by itself with status {self.daemon.ended}")
        begin(self, time.monotonic() - _AGAIN_S)

    def _first_s(self, fault: Fault) -> float:
        """When a fault comes first: also in a short soak, and within its part of it."""
        begin, end = STORM if fault.restarts else (0.0, 0.9)
        long = (end - begin) * self._seconds
        return begin * self._seconds + self.chance.uniform(0.1, 0.9) * min(fault.every_s, long)

    def _break(self, fault: Fault, end_s: float) -> None:
        part = (time.time() - self.seen.began_s) / self._seconds
        if part > (STORM[1] if fault.restarts else 0.95) and self.seen.faults[fault.name]:
            return
        if self._quiet:
            self._after(self._quiet_s, lambda: self._break(fault, end_s))
            return
        again = _AGAIN_S
        if fault.begin(self):
            self.seen.faults[fault.name] += 1
            again = self.chance.expovariate(1.0 / fault.every_s)
        self._after(again, lambda: self._break(fault, end_s))

    def _act(self, end_s: float) -> None:
        """Let the hostile user begin an act."""
        if not self._acts:
            self._acts = self.chance.sample(sorted(ACTS), len(ACTS))
        uid, ground = self._ground.hostile, self._ground
        left_s = self._left_s - self._quiet_s
        if left_s > 1.0:
            name = self._acts.pop()
            act, longest_s = ACTS[name]
            self._spawn_act(act, ground, uid, time.time() + min(longest_s, left_s))
            self.seen.acts[name] += 1
        if time.time() < end_s - 2 * self._quiet_s:
            self._after(self.chance.expovariate(1.0 / self._act_every_s), lambda: self._act(end_s))

    def _spawn_act(self, act: Act, ground: Ground, uid: int, until_s: float) -> None:
        chance = random.Random(self.chance.random())

        def work() -> None:
            signal.alarm(int(until_s - time.time()) + 2)  # ends it, whatever it waits for
            act(ground, uid, chance, until_s)

        self.own(spawn(uid, work))

    def _submit(self, end_s: float) -> None:
        """Submit some jobs of each user in turn."""
        if not self.daemon.silent:
            try:
                self._open = self.daemon.ask("page", limit=1)["total"]
            except RadrmError:
                self._open = MOST_OPEN
        if self._open < MOST_OPEN:
            uid = self.chance.choice(self._ground.users)
            mean = JOBS_PER_S * SUBMIT_EVERY_S
            while len(self._kinds) < 2 * mean:
                self._kinds.append(draw(self.chance))
            count = self.chance.randint(1, int(2 * mean) - 1)
            now, self._kinds = self._kinds[:count], self._kinds[count:]
            taken = submit(self._ground, uid, now, self.chance.getrandbits(32))
            self.seen.ledger.note(uid, taken)
            self.seen.refused += len(taken) < len(now)
        if time.time() < end_s - 1.0:
            self._after(SUBMIT_EVERY_S, lambda: self._submit(end_s))

    def _command(self, end_s: float) -> None:
        """Let a user cancel one of his jobs, or hold and release it, or ask it to save."""
        if not self.daemon.silent:
            try:
                rows = self.daemon.ask("page", limit=50)["jobs"]
            except RadrmError:
                rows = []
            uids = {user_name(uid): uid for uid in self._ground.users}
            rows = [row for row in rows if row["user"] in uids and row["name"] != PROBE]
            if rows:
                row = self.chance.choice(rows)
                job, uid = str(row["id"]), uids[row["user"]]
                for op in self.chance.choice((["cancel"], ["hold", "release"], ["checkpoint"])):
                    if op == "cancel":
                        self.seen.ledger.cancelled.add(row["id"])
                    answers = command(self._ground, uid, op, [job])
                    self.seen.commands[op] += any(each["error"] is None for each in answers)
        if time.time() < end_s - 1.0:
            wait = self.chance.expovariate(1.0 / COMMAND_EVERY_S)
            self._after(wait, lambda: self._command(end_s))

    def _look(self, end_s: float) -> None:
        """Take the sample of this minute."""
        if self.daemon.silent or self._left_s < 0.1:
            self._after(0.1, lambda: self._look(end_s))
            return
        try:
            sample = self._sample()
        except (RadrmError, OSError) as error:
            self.seen.wrong.append(f"no sample could be taken: {error}")
        else:
            self.seen.samples.append(sample)
            self._tell(_line(sample, self.seen))
        if time.time() < end_s - self._minute_s / 2:
            self._after(self._left_s, lambda: self._look(end_s))

    # ------------------------------------------------------------- the end

    def _finish(self, first: Sample, before: dict[str, int]) -> None:
        """Let all jobs end, and count what is left."""
        seen, database = self.seen, self._ground.paths.database
        for uid in self._ground.users:
            seen.latencies += _latencies(uid, self._ground.home_of(uid) / "probes", seen.ledger)
        left = _patiently(lambda: not unfinished(database), END_S)
        if not left:
            seen.wrong += [
                f"lost: job {job} ({ticket}) is {state} {END_S:.0f} s after the last fault"
                for job, ticket, state in unfinished(database)
            ]
        _patiently(lambda: not samples.left_over(self.daemon), 20.0)
        _patiently(lambda: not self._strangers(), 20.0)
        for pid in self._own:
            _end(pid)
        seen.files = samples.left_over(self.daemon)
        seen.processes = self._strangers()
        after = self.daemon.used_mib()
        seen.memory = {uuid: (before.get(uuid, 0), now) for uuid, now in after.items()}
        seen.idle = first, self._sample()
        self.daemon.end(signal.SIGTERM)
        _patiently(lambda: not self._strangers(), 10.0)
        seen.processes += self._strangers()
        self.daemon.quit_driver()
        seen.ledger.read(database)
        seen.reserved = reservations(database)
        for uid in self._ground.users:
            seen.lines += witnessed(self._ground.home_of(uid) / "lines")
        said = self.daemon.said()
        for word in ("Traceback", " CRITICAL "):
            if word in said:
                seen.wrong.append(f"the daemon's log holds {said.count(word)} times {word.strip()}")

    def _strangers(self) -> list[Process]:
        """Processes below the collector that are neither of the soak nor of the daemon itself."""
        daemon = self.daemon.pid if self.daemon.ended is None else 0
        known = {os.getpid(), daemon, *self._own}
        return [
            each
            for each in descendants(os.getppid())
            if each.pid not in known
            and each.parent not in self._own
            and not is_driver(each)
            and not is_forker(each)
            and not (each.parent == daemon and is_worker(each))
        ]

    # ------------------------------------------------------------- small matters

    def _after(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time.time() + seconds, next(self._number), what))

    def _repaired(self) -> bool:
        """Repair all that is broken now; True if nothing is left, and the daemon answers."""
        if self.daemon.ended is not None:
            self._start_again()
        for number in sorted(self._repairs):
            self._repair(number)
        return not self._repairs and not self.daemon.silent

    def _repair(self, number: int) -> None:
        repair = self._repairs.pop(number, None)
        if repair is not None:
            repair()

    @property
    def _left_s(self) -> float:
        """Seconds until the next sample."""
        passed_s = time.time() - self.seen.began_s
        return self._minute_s - passed_s % self._minute_s

    @property
    def _quiet(self) -> bool:
        return self._left_s < self._quiet_s

    def _sample(self) -> Sample:
        seen, database = self.seen, self._ground.paths.database
        seen.ledger.read(database)
        counts = len(seen.ledger.acknowledged), len(seen.ledger.ended)
        return samples.take(self.daemon, seen.began_s, *counts)

    def _reap(self) -> None:
        for pid in list(self._own):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self._own.discard(pid)


def _latencies(uid: int, path: Path, ledger: Ledger) -> list[Latency]:
    """What the prober has written; its submissions go to the ledger."""
    found: list[Latency] = []
    for text in path.read_text().splitlines() if path.exists() else []:
        words = text.split(" ")
        at_s, op, took = float(words[0]), words[1], words[2]
        if op != PROBE:
            found.append(Latency(at_s, op, float(words[-1]), answered=took != "-"))
        elif took != "-":
            ledger.note(uid, [(words[3], PROBE, at_s)])
    return found


def _line(sample: Sample, seen: Seen) -> str:
    return (
        f"{sample.at_s / 60:5.1f} min: {sample.submitted} submitted, {sample.ended} ended, "
        f"{sample.running} run, {sample.waiting} wait; {seen.faults.total()} faults, "
        f"{seen.acts.total()} hostile acts; daemon {sample.life}: {sample.rss_kib // 1024} MiB, "
        f"{sample.descriptors} descriptors, {sample.threads} threads, "
        f"store {sample.store_kib} KiB; load {sample.load}"
    )


def _patiently(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
