"""The recommended planner for due times: it weighs what waiting costs against what a stop costs.

Theory of operation
-------------------
Without a waiting job that has a due time it is `default`, proposal by proposal. Otherwise waiting
jobs are tried in the order of `tardiness.Ranking`; within one queue and priority:

    old jobs       they have waited `max_wait_s`: since they were submitted, or since their due time
    due jobs       by what a delay of them costs
    other jobs     in the configured order; as in `default`, none passes the first of them

The policy decides which devices a job may share. A job starts unless

- it would end cheaper on a kind of device, or alone on a device, that is expected to be free soon.
  It waits so at most half as long again as was expected at first.
- a kWh is cheaper later (`wait_for_cheap`), and it ends in time all the same: by the upper bound of
  its run time, and even if all jobs that wait so run one after another.
- it would delay the *first that waits*: the first ranked job that no device takes. That one is
  waited for only as long as it can be in time (then others may use its slack up to its latest
  start), or if it is old. For a job that is late whatever is done no device is kept idle.

The first that waits has a reservation (`Reserve`) if it takes whole devices and time limits bound
when these are free. That shows it to users, and keeps other planners away. Elsewhere this planner
alone keeps the place, as `backfill` does: a reservation is of memory, on shared GPUs a job mostly
waits for SM activity, and a running job without a time limit leaves no moment to reserve from.

A running job that can save is stopped for a waiting one that gets its place, if the tardiness that
this saves exceeds by `margin` what it costs: the tardiness of the stopped job, which goes on where
the waiting one would have started; the time to save and to start again, at its own weight and that
of the late jobs which wait for the device; the energy of that time. Nothing is stopped that has
run for less than `min_run_s`, or was asked to within `cooldown_s`, also if it did not save.

Invariants:
- Only jobs with a way to save are stopped, and no job of a higher priority than the waiting one.
- At most one stop is under way for a waiting job, and it is the first to be tried when the place
  is free.
- What is kept is bounded, and ends with the job or with `cooldown_s`.

What may interleave: the stopped job may end, or never save; then nothing follows but the pause.
Due times, weights and durations may change: the ranking follows the records.

What a restart sees: the notes, in the planner's state. Dates count across a reboot; a note from the
future counts from now, so that a clock set back lengthens no bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core import events as ev
from radrm.core.proposals import Proposal
from radrm.core.records import Job, Refusal
from radrm.core.rules import Plan
from radrm.core.units import show_seconds
from radrm.core.view import View
from radrm.deadlines.costs import Costs
from radrm.planners.order_policy import OrderPolicy
from radrm.planners.tardiness import Ranking, Terms

NOTES = "deadline notes"
"""The key of this planner's own memory in its state, beside the states of policies."""


@dataclass(frozen=True, slots=True)
class Deadline(OrderPolicy):
    """Start and stop jobs by what a late end costs (`--due`, `--weight`).

    Without due times it is `default`.
    """

    costs: Costs = Costs()
    depth: int = 25
    """The number of waiting jobs with due times that are tried at an event."""
    max_wait_s: float = 86_400.0
    """A job that has waited for this long goes before all others; with a due time: this long after
    it."""
    unknown_duration_s: float = 3600.0
    """The duration to assume for a job without a prediction of it. A time limit bounds both."""
    margin: float = 0.2
    """A stop must save this part more than it costs."""
    restart_s: float = 60.0
    """The time that a stopped job needs to start again and to load its work."""
    min_run_s: float = 300.0
    """A job is stopped only after it has run for this long."""
    cooldown_s: float = 1800.0
    """A job is not stopped, nor asked to, again within this time."""
    name: str = "deadline"

    @property
    def terms(self) -> Terms:
        """The costs, and what is assumed where nothing is known."""
        return Terms(self.costs, self.unknown_duration_s)
