"""Time slots: a job that can save its work gives way to waiting jobs after a time.

Theory of operation
-------------------
RAD-RM's thesis, section 7.3: fixed time slots and checkpoints, so that long jobs do not keep short
ones waiting for ever. A slot lasts `length_s`. From `warn_s` before its end the job is asked to
save as soon as another job needs its GPUs; when it has saved it is stopped, the GPUs are free at
once, and it waits behind all others. A job that nobody waits for runs on, and one that does not
save in its time, too: it is asked again `warn_s` after the last request, or after a minute.

A slot counts the time that a job has run since it was last behind all others: the live attempt,
and earlier ones whose saved work it continues (`Job.used_s`). So a move begins no new slot.

Who gives way to whom: the waiting jobs are looked at in their order, as many as there are devices.
Each takes devices that are idle or being left; for the others that it needs, jobs whose slot is
over are asked, those first that leave a device idle, then the oldest slot. A job that cannot get
all its devices like this ends the search, for no job passes it. A job that has given way is *in
turn* again `length_s - warn_s` later: until then the others have not had a slot since.

Invariants:
- Only jobs on GPUs that can save are asked.
- A job is asked only for one that is served before it afterwards (`View.precedes`). Else it would
  start again at once.
- No more jobs are asked than the waiting ones need: one job that waits stops one other in a slot,
  not each whose slot is over as well. A device that others stay on is left only if
  the policy would accept it then, by the SM activity that is known of those.

The bound, with planner `strict`: if all jobs can save within the saving time P, and stop within
the grace time G, the job at place n of a line in the order of submission starts within
n x (length_s - warn_s + P + G) after it came, however long the others run
(`tests/planners/slots/test_starvation.py`).

What may interleave: a request by a user or another planner comes first; then the job is asked
after the answer. What a restart sees: the attempts' records; nothing else is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from msgspec import Struct, field

from radrm.core import events as ev
from radrm.core.proposals import Preempt, Proposal
from radrm.core.records import Attempt, Instant, Job, Refusal, Role
from radrm.core.rules import Ask, Plan, Planner, Policy
from radrm.core.view import Offer, View
from radrm.core.words import ActionKind, CheckpointKind, JobState
from radrm.deadlines import UTC, Zone
from radrm.structs import replace

NAME = "slots"
_LOOK_AGAIN_S = 60.0
"""While a slot is over: how often the waiting jobs are looked at without an event."""
_OVER = "its time slot is over"
# What can end a slot, or put a job before others, or free a device.
_OCCASIONS: frozenset[type[ev.Event]] = frozenset(
    {
        ev.JobSubmitted,
        ev.EstimateReady,
        ev.HoldRequested,
        ev.RequeueRequested,
        ev.EditRequested,
        ev.DrainRequested,
        ev.DevicesSeen,
        ev.AttemptStarted,
        ev.AttemptEnded,
        ev.AttemptsAdopted,
        ev.CheckpointTaken,
        ev.ActionFailed,
    }
)
_CHANGES = (
    ev.AttemptStarted,
    ev.AttemptEnded,
    ev.AttemptsAdopted,
    ev.CheckpointTaken,
    ev.ActionFailed,
)
"""What can make a slot end earlier than known: also other settings after a restart, and answers."""


@dataclass(frozen=True, slots=True)
class Slots(Planner):
    """Ask running jobs to give way at the end of their time slots.

    `length_s` and `warn_s` in seconds, from the table `[slots]`. It runs behind the configured
    planners: a job that still waits then could not start. `policy` places jobs, and `zone` is that
    of the times that are shown.
    """

    policy: Policy
    length_s: float
    warn_s: float = 600.0
    zone: Zone = UTC
    name: str = NAME
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = _OCCASIONS

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        now = view.now
        quiet = state is not None and state["boot"] == now.boot and now.boot_s < state["first_s"]
        if quiet and not isinstance(event, _CHANGES):
            return Plan(state=state, wake_at=state["first_s"])
        slots = list(self._slots(view))
        if not slots:
            return Plan()
        times = [at_s for s in slots for at_s in (s.ask_s, s.end_s)]
        times += [self._turn_s(view, job) for job in self._first(view)]
        times = [at_s for at_s in times if at_s > now.boot_s]
        over = [slot for slot in slots if slot.over]
        free = any(slot.free for slot in over)
        # A request that is given up causes no event.
        if over and (view.any_waiting or not free):
            times.append(now.boot_s + _LOOK_AGAIN_S)
        kept = {
            "boot": now.boot,
            # Before it, only `_CHANGES` can have somebody asked.
            "first_s": now.boot_s if free else min(times, default=now.boot_s),
            "remarks": {str(slot.job.id): self._remark(slot, now) for slot in slots},
        }
        return Plan(self._proposals(view, slots), kept, min(times, default=None))

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        head = view.head()
        if head is None or head.id != job.id:
            return ()  # it waits for the first job
        suits = {d.uuid for role in job.spec.roles for d in view.suitable(job, role)}
        found = [
            slot
            for slot in self._slots(view)
            if suits.intersection(slot.attempt.placement.devices) and view.precedes(job, slot.job)
        ]
        if not found:
            return ()
        first = min(found, key=lambda slot: (not slot.leaves, slot.end_s, slot.job.id))
        who = f"job {first.job.label} ({first.job.spec.name})"
        turn_s = self._turn_s(view, job)
        if first.leaves:
            why = f"{who} saves its work and gives way: {_OVER}"
        elif turn_s > max(view.now.boot_s, first.ask_s):
            why = f"it has given way itself; {who} gives way at {self._clock(turn_s, view.now)}"
        elif first.over:
            why = f"{who} is asked to give way: {_OVER}"
        else:
            why = f"{who} gives way when {self._remark(first, view.now)}"
        return (Refusal(NAME, why),)

    # ------------------------------------------------------------- slots

    def _slots(self, view: View) -> Iterator[_Slot]:
        """Yield the slots of the running jobs that can be asked, by the ids of the jobs."""
        now = view.now
        for job, attempt in view.running():
            kind, began = job.spec.checkpoint.kind, attempt.started
            if kind is CheckpointKind.NONE or not job.spec.gpus or began is None:
                continue
            asked = attempt.asked(ActionKind.CHECKPOINT)
            leaves = view.leaving(job, attempt).issuperset(attempt.placement.devices)
            used_s = job.used_s - (job.requeued.used_s if job.requeued is not None else 0.0)
            end_s = began.boot_s + max(0.0, self.length_s - max(0.0, used_s))
            ask_s = end_s - self.warn_s
            if attempt.checkpoint_failed is not None and attempt.checkpoint_asked is not None:
                ask_s = max(ask_s, attempt.checkpoint_asked.boot_s + self._again_s)
            over = ask_s <= now.boot_s and job.state is JobState.RUNNING
            yield _Slot(job, attempt, end_s, ask_s, over, leaves, asked is None and not leaves)

    @property
    def _again_s(self) -> float:
        return max(self.warn_s, _LOOK_AGAIN_S)

    def _remark(self, slot: _Slot, now: Instant) -> str:
        if slot.end_s <= now.boot_s:
            return _OVER
        return f"its time slot ends at {self._clock(slot.end_s, slot.attempt.started or now, now)}"

    def _clock(self, at_s: float, began: Instant, now: Instant | None = None) -> str:
        """Return a boot time as users read it, by the date of another moment of that boot."""
        return self.zone.clock(began.wall_s + at_s - began.boot_s, (now or began).wall_s)

    # ------------------------------------------------------------- who gives way

    def _first(self, view: View) -> Iterator[Job]:
        return islice(view.waiting(), len(view.devices()))

    def _turn_s(self, view: View, job: Job) -> float:
        """Return from when on (boot time) others may be asked for a waiting job.

        At once for one that has not run since it was submitted or run anew.
        """
        gave_way = job.requeued if job.started is not None else None
        since_s = None if gave_way is None else view.now.since(gave_way.at)
        if since_s is None:
            return view.now.boot_s
        return view.now.boot_s - since_s + self.length_s - self.warn_s

    def _proposals(self, view: View, slots: Sequence[_Slot]) -> Iterator[Proposal]:
        due = {slot.job.id: slot for slot in slots if slot.over and slot.free}
        if not due or not view.any_waiting:
            return
        leaving = {
            job.id
            for job, attempt in view.running()
            if view.leaving(job, attempt).issuperset(attempt.placement.devices)
        }
        search = _Search(view, self.policy, due, leaving)
        for job in self._first(view):
            in_turn = self._turn_s(view, job) <= view.now.boot_s
            asked = search.asked_for(job, in_turn)
            if asked is None:
                return
            for job_id in asked:
                yield Preempt(job_id=job_id, behind=True)


class _Slot(Struct, frozen=True):
    """A running job's slot. Times are boot-time seconds.

    `over`: it may be asked from now on. `leaves`: it is being stopped or moved. `free`: it is not,
    and no request to save is unanswered.
    """

    job: Job
    attempt: Attempt
    end_s: float
    ask_s: float
    over: bool
    leaves: bool
    free: bool


class _Search(Struct):
    """Finds devices for waiting jobs, one after another. `due`: who may be asked, by job id."""

    view: View
    policy: Policy
    due: dict[int, _Slot]
    leaving: set[int]
    taken: set[str] = field(default_factory=set)
    """The devices that jobs before this one take."""

    def asked_for(self, job: Job, in_turn: bool) -> Sequence[int] | None:
        """Return whom to ask for a job; None if it cannot have all its devices.

        `in_turn` False: it takes only devices that are idle or being left.
        """
        may = {i for i, slot in self.due.items() if in_turn and self.view.precedes(job, slot.job)}
        if self.view.refuse_on_nodes(job) is not None and not self.leaving:
            # It waits for CPUs or host memory, which jobs on any device hold.
            oldest = sorted(may, key=lambda each: self.due[each].end_s)[:1]
            return self._ask(oldest) if oldest else None
        roles = [(role, self.view.suitable(job, role)) for role in job.spec.roles]
        chosen: list[str] = []
        asked: list[int] = []
        for role, devices in sorted(roles, key=lambda each: len(each[1])):
            for _ in range(role.count_min * role.needs.gpus):
                free = [
                    d.uuid for d in devices if d.uuid not in self.taken and d.uuid not in chosen
                ]
                ways = [(uuid, self._way(job, role, uuid, may, asked)) for uuid in free]
                found = [(way, uuid) for uuid, way in ways if way is not None]
                if not found:
                    return None
                way, uuid = min(found, key=lambda each: self._cost(*each))
                chosen.append(uuid)
                asked += way
        self.taken.update(chosen)
        return self._ask(asked)

    def _ask(self, job_ids: Sequence[int]) -> Sequence[int]:
        self.leaving.update(job_ids)
        for job_id in job_ids:
            del self.due[job_id]
        return job_ids

    def _way(
        self, job: Job, role: Role, uuid: str, may: set[int], asked: Sequence[int]
    ) -> Sequence[int] | None:
        """Return whom to ask for a device; None if it would not be enough."""
        offer = self.view.offer(job, role, uuid)
        there = [occupant.job.id for occupant in offer.occupants]
        gone = [each for each in there if each in self.leaving or each in asked]
        more = [each for each in there if each in may and each not in gone]
        if (gone or not there) and self._would_do(job, role, offer, gone):
            return ()
        return more if more and self._would_do(job, role, offer, [*gone, *more]) else None

    def _would_do(self, job: Job, role: Role, offer: Offer, gone: Sequence[int]) -> bool:
        """Return whether a device would do for a job once these have left it."""
        stay = tuple(occupant for occupant in offer.occupants if occupant.job.id not in gone)
        need = self.view.need_mib(job, role)
        if not stay:  # what it had is unknown until it is read
            unread = bool(offer.occupants) or offer.free_mib is None
            return unread or (need or 0) <= (offer.free_mib or 0)
        if offer.free_mib is None or job.recovers_idle:
            return False
        if offer.refusal is not None and offer.refusal.rule != "reading":
            return False
        held = self.view.reservations(offer.device.uuid)
        freed = sum(each.mib or 0 for each in held if each.job_id in gone)
        then = replace(
            offer,
            refusal=None,
            idle=False,
            free_mib=min(offer.device.capacity_mib, offer.free_mib + freed),
            job_ids=tuple(occupant.job.id for occupant in stay),
            occupants=stay,
        )
        known = [occupant.smact for occupant in stay if occupant.smact is not None]
        if len(known) == len(stay):
            then = replace(then, smact=min(1.0, sum(known)), smact_refusal=None)
        ask = Ask(job, role.count_min * role.needs.gpus, need)
        return self.policy.refuse(ask, then) is None

    def _cost(self, way: Sequence[int], uuid: str) -> tuple[float, ...]:
        """Return a sort key: nobody to ask first, then the oldest slot."""
        return len(way), min((self.due[each].end_s for each in way), default=0.0)
