"""What sharing costs on the devices here, learned from periods in which jobs share them.

Theory of operation
-------------------
`SharedPeriods` cuts the time of a device where its jobs change, and every `LONGEST_S`. A period
counts from when the device is warm (`load.py`). If it lasts for `LEAST_S`, and each of its jobs is
on this device only, it goes to `Sharing` with what is known of each job alone: SM activity, and
steps per second. The learner, a part of the rules, makes of it the next state of this kind of
device and mode, which has the learned `loss`. Rules see that in offers.

The loss that is published changes only by `_STEP` and more: each change makes kept offers and plans
old.

What a restart sees: the learner's states (`RuleState` of the kind "sharing"). A period under way
begins anew, and so do the steps per second of jobs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Protocol

from msgspec import Struct

from radrm.core.records import LearnedLoss, RuleState, SharedPeriod, Sharer
from radrm.core.state.readings import OccupantUse
from radrm.core.words import Collocation

KIND = "sharing"
"""The kind of the stored records."""
LEAST_S = 60.0
"""Shorter periods show too little."""
LONGEST_S = 1800.0
"""Longer ones count as several."""
VERSION = 1
_STEP = 0.02
_MPS, _TIMESLICE = "mps", "timeslice"


class Learner(Protocol):
    """Learns the loss of a kind of device and a mode. Pure; its state is plain JSON."""

    def learn(self, known: Any, period: SharedPeriod) -> dict[str, Any] | None:
        """Return the state after a period, with `loss` (0..1) and `periods`; None: it shows
        nothing. `known`: the state before; None, or something damaged: begin anew."""
        ...


class Sharing:
    """What has been learned. `save` stores a record; `changed` is called with a device's kind when
    another loss counts there."""

    def __init__(
        self,
        states: Mapping[tuple[str, str], RuleState],
        save: Callable[[RuleState], None],
        changed: Callable[[str], None],
    ) -> None:
        self._states, self._save, self._changed = states, save, changed
        self.learner: Learner | None = None

    def loss(self, kind: str, mps: bool) -> float | None:
        """Return the learned loss on devices of a kind; None: nothing is learned yet."""
        found = self._states.get((KIND, _name(kind, mps)))
        known = None if found is None else _learned(found)
        return None if known is None else known.loss

    def see(self, period: SharedPeriod) -> None:
        if self.learner is None:
            return
        name = _name(period.kind, period.mps)
        found = self._states.get((KIND, name))
        before = None if found is None else _learned(found)
        known = found.state if found is not None and before is not None else None
        state = self.learner.learn(known, period)
        if state is None:
            return
        shown = state["loss"]
        if before is not None and abs(shown - before.loss) < _STEP:
            shown = before.loss
        self._save(RuleState(KIND, name, VERSION, {**state, "shown": shown}))
        if before is None or shown != before.loss:
            self._changed(period.kind)

    def every(self) -> tuple[LearnedLoss, ...]:
        """Return all that was learned, by kind and mode."""
        return learned(self._states.values())


def learned(records: Any) -> tuple[LearnedLoss, ...]:
    """Return what the stored records of learners say, by kind and mode."""
    found = [_learned(each) for each in records if each.kind == KIND]
    known = [each for each in found if each is not None]
    return tuple(sorted(known, key=lambda each: (each.kind, each.mps)))


def _name(kind: str, mps: bool) -> str:
    return f"{_MPS if mps else _TIMESLICE}:{kind}"


def _learned(record: RuleState) -> LearnedLoss | None:
    """Return what a record says; None if it is of another version or damaged."""
    state, (mode, _, kind) = record.state, record.name.partition(":")
    if record.version != VERSION or not isinstance(state, dict):
        return None
    try:
        loss, periods = float(state["shown"]), int(state["periods"])
    except (KeyError, TypeError, ValueError):
        return None
    if not (isfinite(loss) and 0 <= loss <= 1 and periods > 0):
        return None
    return LearnedLoss(kind, mode == _MPS, loss, periods)


# ------------------------------------------------------------------ periods of a device


class Steps(Struct):
    """The steps of a job on a device that it has to itself, and those since its jobs changed."""

    alone: float = 0.0
    alone_s: float = 0.0
    first: tuple[float, float] | None = None
    """Boot time and step of the first report that counts."""
    last: tuple[float, float] | None = None

    def note(self, boot_s: float, step: float) -> None:
        if self.last is not None and (step < self.last[1] or boot_s < self.last[0]):
            self.first = None  # begun anew
        self.last = boot_s, step
        if self.first is None:
            self.first = self.last

    def close(self, alone: bool) -> float | None:
        """End a period. Returns the job's speed there as a part of that alone; None: unknown."""
        first, last = self.first, self.last
        self.first = self.last = None
        if first is None or last is None or last[0] - first[0] < LEAST_S or last[1] <= first[1]:
            return None
        steps, seconds = last[1] - first[1], last[0] - first[0]
        if alone:
            self.alone += steps
            self.alone_s += seconds
        if not self.alone:
            return None
        return (steps / seconds) / (self.alone / self.alone_s)


class SharedPeriods:
    """Cuts the time of one device, and passes on the periods that show something."""

    __slots__ = ("_emit", "_occupants", "_since_s", "_smact", "_steps")

    def __init__(self, occupants: Mapping[int, OccupantUse], emit: Callable[[SharedPeriod], None]):
        self._occupants = occupants
        self._emit = emit
        self._steps: dict[int, Steps] = {}
        self._since_s: float | None = None
        """Boot time of the first reading that counts."""
        self._smact: list[float] = [0.0, 0.0]
        """The sum of readings of SM activity, and their number."""

    def take(self, kind: str, boot_s: float, smact: float | None) -> None:
        """Take in a reading that shows the jobs that are here now."""
        if self._since_s is None:
            self._since_s = boot_s
        elif boot_s - self._since_s >= LONGEST_S:
            self.close(kind, boot_s)
            self._since_s = boot_s
        if smact is not None:
            self._smact[0] += smact
            self._smact[1] += 1

    def report(self, job_id: int, boot_s: float, step: float) -> None:
        """Take in a report of a job's steps."""
        if self._since_s is not None and boot_s >= self._since_s and job_id in self._occupants:
            self._steps.setdefault(job_id, Steps()).note(boot_s, step)

    def close(self, kind: str, until_s: float) -> None:
        """End the period: the jobs of the device are about to change."""
        since_s, (total, count), here = self._since_s, self._smact, self._occupants
        self._since_s, self._smact = None, [0.0, 0.0]
        for job_id in [each for each in self._steps if each not in here]:
            del self._steps[job_id]
        alone = len(here) == 1
        speeds = {job_id: steps.close(alone) for job_id, steps in self._steps.items()}
        if since_s is None or until_s - since_s < LEAST_S or len(here) < 2:
            return
        if any(each.wide for each in here.values()):
            return  # its other devices may hold it back
        smact = total / count if count else None
        if smact is None and not any(speeds.values()):
            return
        sharers = tuple(
            Sharer(each.own_smact, each.alone_count > 0, speeds.get(job_id))
            for job_id, each in here.items()
        )
        mps = all(each.collocation is Collocation.MPS for each in here.values())
        self._emit(SharedPeriod(kind, mps, until_s - since_s, sharers, smact))
