"""The daemon of a live run; submit the jobs at their times, and wait for their ends.

Theory of operation. A submission is written into the spool and is the daemon's from then on.
`cancel` takes back all that was submitted and has not ended; it may be called at any time, also
after an interruption. Times of the trace are of the daemon's clock.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from radrm.client.connection import Client, batches
from radrm.client.text import FINAL
from radrm.config import Config
from radrm.core.records import DECLARED
from radrm.errors import DeviceError, RadrmError, Unreachable
from radrm.host.storage.spool import Envelope, Spool
from radrm.lab.experiments.demo.server import DemoServer
from radrm.lab.experiments.live.record import Readings, run_of
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.traces.job import TraceJob


class Server(Struct, frozen=True):
    """A daemon that answers. `chdir`: where jobs run; None: in the caller's folder.

    `gpus`: `sim:SPEC` if they are simulated, else None. `scale`: how much faster its clock is.
    """

    ask: Callable[..., Any]
    spool: Spool
    environment: Mapping[str, str]
    gpus: str | None
    scale: float
    chdir: str | None = None


@contextlib.contextmanager
def private_server(folder: Path, gpus: str, scale: float, scenario: Scenario) -> Iterator[Server]:
    """A daemon of its own in this folder, configured as a scenario. It leaves nothing behind."""
    server = DemoServer(folder, gpus, scale, daemon_settings(scenario))
    try:
        server.start()
        server.await_answer()
        if any(device["used_mib"] is None for device in server.devices()):
            raise DeviceError("the simulated GPUs are not read; try again")
        spool = Spool(server.paths.spool)
        yield Server(server.ask, spool, server.environment, gpus, scale, chdir=str(server.work))
    finally:
        server.end()


def daemon_settings(scenario: Scenario) -> list[str]:
    """Return the settings (`KEY=VALUE`) of a daemon that does what the simulator does."""
    config = replace(
        scenario.config,
        mps=replace(scenario.config.mps, enabled=scenario.mps),
        # The jobs declare what is known of them; nothing else is to be found out.
        estimator=DECLARED,
    )
    usual = dict(_leaves(Config().to_table()))
    return [
        f"{key}={json.dumps(value)}"  # JSON's strings, numbers and lists are TOML's, too
        for key, value in _leaves(config.to_table())
        if value is not None and usual.get(key) != value
    ]


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


@contextlib.contextmanager
def own_server() -> Iterator[Server]:
    """The user's daemon, or the system's. Raises `Unreachable`."""
    with Client() as client:
        paths = client.connect()
        about = client.ask("ping")
        gpus = str(about["gpus"])
        yield Server(
            ask=client.ask,
            spool=Spool(paths.spool),
            environment=os.environ,
            gpus=gpus if gpus.startswith("sim:") else None,
            scale=float(about["time_scale"]),
        )


Document = dict[str, Any]

_READ_EVERY_S, _SHORTEST_PAUSE_S = 5.0, 0.25
"""Time between two readings: of the daemon's clock, and the least of real time."""
_PATIENCE_S = 60.0
"""Real seconds that the daemon may not answer, as in a restart, or not take in a job."""
_WATCHED = 100
"""Jobs that are asked about at once: all must end, so a few are enough."""
_BATCH = 1000


class Play(Struct):
    """One run of a trace. `envelopes` are those of `jobs`, which are in order of time."""

    server: Server
    jobs: Sequence[TraceJob]
    envelopes: Sequence[Envelope]
    pause: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic
    readings: Readings = field(default_factory=Readings)
    _submitted: int = 0
    _new: dict[str, float] = field(default_factory=dict)
    """Tickets that the daemon has not taken in yet, and since when (real time)."""
    _live: dict[str, None] = field(default_factory=dict)
    """Tickets of jobs that have not ended."""
    _ended: int = 0

    def run(self, limit_s: float, progress: Callable[[int, int], object]) -> Run:
        """Play the trace to the end of its last job, or for `limit_s` of the daemon's clock.

        Raises `RadrmError` if the daemon does not answer.
        """
        begin_s = float(self._ask("ping")["now"])
        while True:
            now_s = float(self._ask("ping")["now"])
            self._submit(now_s - begin_s)
            self._take_in()
            self._look()
            self.readings.add(now_s, self._ask("gpus"))
            progress(self._ended, len(self.jobs))
            if self._ended == len(self.jobs) or now_s - begin_s > limit_s:
                return self._record()
            self.pause(self._pause_s(now_s - begin_s))

    def cancel(self) -> int:
        """Cancel what has not ended. Returns the number of jobs. Raises `RadrmError`."""
        left = [*self._new, *self._live]
        cancelled = 0
        for batch in batches(left):
            self.server.ask("intake", jobs=batch)  # those that are still in the spool
            results = self.server.ask("cancel", jobs=batch)
            cancelled += sum(each["error"] is None for each in results)
        return cancelled

    @property
    def unended(self) -> int:
        """The number of submitted jobs that are not known to have ended."""
        return len(self._new) + len(self._live)

    # ------------------------------------------------------------- one round

    def _submit(self, elapsed_s: float) -> None:
        first = self._submitted
        last = first
        while (
            last < len(self.jobs)
            and last - first < _BATCH
            and self.jobs[last].submit_s <= elapsed_s
        ):
            last += 1
        if last > first:
            # Noted before: an interrupted `put` may have written some of them.
            self._new |= {each.ticket: self.clock() for each in self.envelopes[first:last]}
            self._submitted = last
            self.server.spool.put(list(self.envelopes[first:last]))

    def _take_in(self) -> None:
        """Ask for new jobs. One that is not taken in for long has ended: it was refused."""
        for batch in batches(list(self._new)):
            found = self._ask("intake", jobs=batch)
            for ticket, document in zip(batch, found, strict=True):
                if document is not None:
                    del self._new[ticket]
                    self._live[ticket] = None
                elif self.clock() - self._new[ticket] > _PATIENCE_S:
                    del self._new[ticket]
                    self._ended += 1

    def _look(self) -> None:
        """Ask about jobs, the earliest first, until one has not ended."""
        while self._live:
            watched = list(self._live)[:_WATCHED]
            found = {each["ticket"]: each for each in self._ask("status", jobs=watched)}
            over = [t for t in watched if t in found and found[t]["state"] in FINAL]
            for ticket in over:
                del self._live[ticket]
            self._ended += len(over)
            if len(over) < len(watched):
                return

    def _pause_s(self, elapsed_s: float) -> float:
        """Real seconds until the next submission or reading."""
        due_s = _READ_EVERY_S
        if self._submitted < len(self.jobs):
            due_s = min(due_s, self.jobs[self._submitted].submit_s - elapsed_s)
        pause_s = max(0.0, due_s / self.server.scale)
        return max(pause_s, _SHORTEST_PAUSE_S) if due_s == _READ_EVERY_S else pause_s

    def _record(self) -> Run:
        explained: list[Document | None] = []
        for envelope in self.envelopes:
            try:
                explained.append(self._ask("explain", jobs=[envelope.ticket]))
            except Unreachable:
                raise
            except RadrmError:
                explained.append(None)
        indices = {each["index"]: each["uuid"] for each in self._ask("gpus")}
        return run_of(self.jobs, explained, self.readings, indices)

    def _ask(self, op: str, **words: Any) -> Any:
        """Ask the daemon. A restart of it is waited for."""
        deadline = self.clock() + _PATIENCE_S
        while True:
            try:
                return self.server.ask(op, **words)
            except Unreachable:
                if self.clock() > deadline:
                    raise
                self.pause(_SHORTEST_PAUSE_S)
