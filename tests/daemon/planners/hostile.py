"""Planners of a third party that raise, answer nonsense or never end, fast and slow ones."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from radrm.rules import Cancel, Collocation, Placement, Plan, Share, Start, events


class Base:
    version, starts_jobs = 1, False
    listens = frozenset({events.JobSubmitted, events.AttemptStarted, events.AttemptEnded})

    def explain(self, view: Any, job: Any) -> tuple[()]:
        return ()


class Raises(Base):
    name = "raises"

    def plan(self, view: Any, event: Any, state: Any) -> Any:
        raise KeyError("x")


class Nonsense(Base):
    name = "nonsense"

    def plan(self, view: Any, event: Any, state: Any) -> Any:
        return 5


class SpinsInView(Base):
    name = "spins-in-view"

    def plan(self, view: Any, event: Any, state: Any) -> Any:
        return Plan(proposal for _ in iter(int, 1) for proposal in self.none(view))

    def none(self, view: Any) -> list[Any]:
        try:
            list(view.running())
            for job in view.waiting():
                view.offers(job, job.spec.roles[0])
        except Exception:  # no `Exception` stops it
            pass
        return []


class Sleeps(Base):
    name = "sleeps"

    def plan(self, view: Any, event: Any, state: Any) -> Any:
        time.sleep(10**6)


class SlowRaises(Base):
    name = "slow-raises"

    def think(self, view: Any, state: Any) -> Any:
        raise KeyError("x")


class SlowNonsense(Base):
    name = "slow-nonsense"

    def think(self, view: Any, state: Any) -> Any:
        return 5


class SlowSpins(Base):
    name = "slow-spins"

    def think(self, view: Any, state: Any) -> Any:
        while True:
            pass


class SlowExits(Base):
    name = "slow-exits"

    def think(self, view: Any, state: Any) -> Any:
        os._exit(0)


class SlowEats(Base):
    name = "slow-eats"

    def think(self, view: Any, state: Any) -> Any:
        return Plan(state=len(bytearray(1 << 40)))


class SlowEndless(Base):
    name = "slow-endless"

    def think(self, view: Any, state: Any) -> Any:
        return Plan(Cancel(job_id=10**6, reason="x") for _ in iter(int, 1))


class SlowMeddles(Base):
    """It forks, prints, reads and starts processes, and answers well."""

    name = "slow-meddles"

    def think(self, view: Any, state: Any) -> Any:
        os.write(1, b"\xff" * 100)
        print("x" * 10**6)
        sys.stdout.flush()
        assert os.read(0, 10) == b""
        os.fork()  # both processes go on
        return Plan(state=len(view.devices()))


class Forgets(Base):
    """It starts jobs, without their CPUs."""

    name, starts_jobs = "forgets", True
    listens = frozenset({events.JobSubmitted, events.ReadingsTaken})

    def plan(self, view: Any, event: Any, state: Any) -> Any:
        device = view.devices()[0]
        share = Share(device.uuid, device.capacity_mib)
        placement = Placement((share,), Collocation.EXCLUSIVE)
        return Plan([Start(job_id=job.id, placement=placement) for job in list(view.waiting())])
