"""The state as a rule can see it: read-only, and always current.

After a proposal is carried out, the view shows the change. The queue is read lazily, so a rule
pays only for the jobs that it looks at.

It has all that a rule may know. A slow planner gets the view of a copy of the state (`seen.py`),
which shows one moment.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from copy import deepcopy
from typing import Any

from radrm.core.constraints.claims import earliest_free_s, free_from_s, leaving
from radrm.core.constraints.feasibility import suitable
from radrm.core.constraints.fit import turns
from radrm.core.constraints.kinds import Rank, rank
from radrm.core.constraints.need import effective_need_mib
from radrm.core.constraints.nodes import books_nothing, refuse_bookings, refuse_size
from radrm.core.constraints.offers import Occupant, Offer, Offers
from radrm.core.constraints.placement import refuse_start
from radrm.core.constraints.searches import Answers, Searches
from radrm.core.records import (
    Attempt,
    Device,
    Instant,
    Job,
    NodeUse,
    Placement,
    RecentUses,
    Refusal,
    Reservation,
    Role,
    UserReservation,
)
from radrm.core.remaining import latest_end_s
from radrm.core.reservations import current, first_of
from radrm.core.seen import DeviceSnapshot, device_snapshot, in_order
from radrm.core.settings import CoreSettings
from radrm.core.state.isolation import Isolation
from radrm.core.state.queue.line import ByDue
from radrm.core.state.reserved import FOREVER
from radrm.core.state.state import State
from radrm.core.words import Collocation

__all__ = ["Occupant", "Offer", "View"]

_MOST_REMARK = 40
"""Characters of what a planner says of a job."""


class View:
    """What the rules see of the state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.kept_offers = Offers(state)
        self.searches = Searches(state, self.kept_offers)
        """For planners that call policies: which searches failed."""
        self.answers = Answers(state.jobs)
        """For planners that call policies."""
        self.scratch: dict[str, Any] = {}
        """For planners, by name: what they can make again from the view at any time. It is dropped
        when the planner fails."""

    @property
    def now(self) -> Instant:
        """The time of the current step."""
        return self._state.step.now

    @property
    def isolation(self) -> Isolation:
        """The rules that rest after a failure, for a planner that calls other rules."""
        return self._state.isolation

    @property
    def settings(self) -> CoreSettings:
        """The settings of the table `[core]`."""
        return self._state.settings

    def kept(self, planner: str, version: int) -> Any:
        """Return a copy of what a planner has kept, for its `explain`; None without any.

        None also if another version of it has kept it.
        """
        found = self._state.rule_states.get(("planner", planner))
        return deepcopy(found.state) if found is not None and found.version == version else None

    def remarks(self, job_id: int) -> tuple[str, ...]:
        """Return what planners say of a running job, as `flowcon: completing`.

        It is the job's entry in `remarks` of their states. A rule can write anything there, so only
        short, printable words count.
        """
        found = []
        for (kind, name), kept in sorted(self._state.rule_states.items()):
            said = kept.state.get("remarks") if isinstance(kept.state, dict) else None
            word = said.get(str(job_id)) if kind == "planner" and isinstance(said, dict) else None
            if isinstance(word, str) and word.isprintable() and 0 < len(word) <= _MOST_REMARK:
                found.append(f"{name}: {word}")
        return tuple(found)

    def head(self, gpuless: bool = False) -> Job | None:
        """Return the first job of the line for GPUs, or of the line for jobs without.

        Of jobs without a GPU only those count that have a place (`core.gpuless_at_once`): the
        others wait for the end of a job, and nothing that a planner does helps them.
        """
        job_id = self._state.queue.gpuless.head() if gpuless else self._state.lines.gpu.head()
        return None if job_id is None else self._state.jobs[job_id]

    @property
    def any_waiting(self) -> bool:
        """True if one of the lines has a head."""
        return len(self._state.lines.gpu) > 0 or self.head(gpuless=True) is not None

    def waiting(self, gpuless: bool = False) -> Iterator[Job]:
        """Yield the jobs of one line, in the order of service; see `head`."""
        line = self._state.queue.gpuless.line() if gpuless else iter(self._state.lines.gpu)
        for job_id in line:
            yield self._state.jobs[job_id]

    def few_waiting(self, most: int) -> Sequence[Job] | None:
        """Return the jobs of the line for GPUs in no order that matters, which costs less than
        `waiting`; None if they are more than so many."""
        line, jobs = self._state.lines.gpu, self._state.jobs
        return [jobs[job_id] for job_id in line.ids()] if len(line) <= most else None

    @property
    def launches_paused(self) -> bool:
        """True while no job can start, because the server could not start one."""
        return self._state.launch_error is not None

    def refuse_start(self, job: Job) -> Refusal | None:
        """Return why a waiting job could start on no device now; None if one may take it.

        It costs the same for any number of devices, so ask this before any of them.
        """
        if not job.state.waiting:
            return self.refuse_on_nodes(job)
        return refuse_start(self._state, job) or refuse_size(self._state, job)

    def by_due(self) -> ByDue:
        """Return which jobs of the line for GPUs have a due time, and the line of all others.

        For the planner that starts jobs: `take_touched` tells each change once. It may be another
        object at the next call; then all may have changed.
        """
        return self._state.lines.by_due()

    def need_of(self, job: Job) -> Hashable:
        """Return what jobs in the lines have in common that the core treats alike; None: in none.

        It is the same object for them. A policy may still tell them apart.
        """
        return self._state.lines.need_of(job.id)

    def moment(self) -> int:
        """Return a number that grows when a device may take other jobs than before."""
        return self.searches.moment()

    def running(self) -> Iterator[tuple[Job, Attempt]]:
        """Yield the jobs with a live attempt, by id."""
        yield from self._state.running()

    def attempt(self, job_id: int) -> Attempt | None:
        """Return the live attempt of a job; None if it has none."""
        return self._state.attempts.get(job_id)

    def leaving(self, job: Job, attempt: Attempt) -> frozenset[str]:
        """Return the devices that a live attempt is about to leave, whatever asked it to."""
        return leaving(job, attempt)

    def job(self, job_id: int) -> Job | None:
        """Return an unfinished job; None if there is none with this id."""
        return self._state.jobs.get(job_id)

    def jobs(self) -> Iterator[Job]:
        """Yield the unfinished jobs, in no order that matters."""
        yield from self._state.jobs.values()

    def position(self, job: Job) -> int | None:
        """Return a job's place in its line, 0 for the head; None if it is in none."""
        return self._state.lines.line_of_job(job).position(job.id)

    def uses(self) -> RecentUses:
        """Return the recent GPU time of users and groups."""
        return self._state.uses.recent()

    def devices(self) -> tuple[Device, ...]:
        """Return the devices that have not vanished, by index."""
        return tuple(self._state.listed)

    def every_device(self) -> tuple[DeviceSnapshot, ...]:
        """Return what is known of each device, also of one that has vanished."""
        settings = self._state.settings
        return in_order(device_snapshot(each, settings) for each in self._state.ledgers.values())

    def loss(self, device: str, mps: bool) -> float | None:
        """Return what sharing a device costs, as learned here (`Offer.loss`); None: not known."""
        ledger = self._state.ledgers.get(device)
        return None if ledger is None else self._state.sharing.loss(ledger.device.name, mps)

    def warm_from_s(self, device: str) -> float:
        """Return the boot time from which readings of SM activity show the jobs that are there."""
        return self._state.ledgers[device].warm_from_s

    def reservations(self, device: str) -> tuple[Reservation, ...]:
        return self._state.ledgers[device].reserved.every()

    def is_on_trial(self, job_id: int, device: str) -> bool:
        """Return whether a job on this device is on trial (`core/state/ledger.py`)."""
        occupant = self._state.ledgers[device].occupants.get(job_id)
        return occupant is not None and occupant.on_trial

    def tries_enough(self, job: Job) -> bool:
        """Return whether half of the devices have jobs of this user on trial, while others
        wait."""
        state, uid = self._state, job.spec.uid
        of_user = state.lines.gpu.of_user
        if len(of_user) <= (uid in of_user):
            return False
        tried = sum(ledger.trial(uid) is not None for ledger in state.ledgers.values())
        return tried >= max(1, len(state.listed) // 2)

    # ------------------------------------------------------------- room over time

    def latest_end_s(self, job: Job) -> float | None:
        """Return when a live job must end, in boot-time seconds: at its time limit. None without
        one."""
        attempt = self._state.attempts.get(job.id)
        if attempt is None:
            return None
        end_s = latest_end_s(self._state.jobs[job.id], attempt, self.now)
        return None if end_s == FOREVER else end_s

    def earliest_s(
        self, device: str, mib: int | None, length_s: float | None = None, job: Job | None = None
    ) -> float | None:
        """Return when `mib` (None: the whole device) are expected to be free for `length_s`.

        A boot-time second, not before now; `length_s` None: without an end. None if that is not
        foreseeable: a live attempt has no time limit, or the free memory is unknown.
        """
        length_s = FOREVER if length_s is None else length_s
        return earliest_free_s(self._state, self._state.ledgers[device], job, mib, length_s)

    # ------------------------------------------------------------- reservations for users

    def every_reserved(self) -> tuple[UserReservation, ...]:
        """Return all reservations for users and for maintenance, also later ones."""
        return tuple(self._state.for_users.every.values())

    def reserved_for_users(self) -> Sequence[UserReservation]:
        """Return the reservations of devices for users that count now."""
        return current(self._state) if self._state.for_users.every else ()

    def first_of(self, reserved: UserReservation) -> Job | None:
        """Return the first job of the line for GPUs that may use such devices; None without one."""
        return first_of(self._state, reserved)

    def reservations_change_s(self) -> Sequence[float]:
        """Return when reservations for users begin and end from now on, in boot-time seconds."""
        ahead_s = self.now.wall_s - self.now.boot_s
        every = self._state.for_users.every.values()
        return [at - ahead_s for r in every for at in (r.start_s, r.end_s) if at > self.now.wall_s]

    def free_from_s(self, job: Job, device: str, at_s: float) -> float:
        """Return the first moment from `at_s` (boot-time seconds) at which no reservation for other
        users keeps a job from starting on a device."""
        return free_from_s(self._state, job, device, at_s)

    # ------------------------------------------------------------- jobs, devices and nodes

    def nodes(self) -> tuple[NodeUse, ...]:
        """Return the nodes with the CPUs and the host memory that jobs have booked, by name."""
        return self._state.nodes.uses()

    def refuse_on_nodes(self, job: Job, placement: Placement | None = None) -> Refusal | None:
        """Return why the nodes cannot give a job its CPUs and host memory now; None if they can.

        None as `placement`: at the job's smallest size, on any of the nodes.
        """
        if placement is None:
            return refuse_size(self._state, job, (job.id,) if job.state.live else ())
        return refuse_bookings(self._state, job, placement)

    def first_for_nodes(self, job: Job) -> Job | None:
        """Return the head of the other line if it waits for CPUs or host memory before `job`.

        None also if `job` takes neither. The two lines have their devices apart, but not the
        nodes: jobs of one line could take forever what the head of the other one waits for.
        """
        head = None if books_nothing(job) else self.head(gpuless=bool(job.spec.gpus))
        if head is None or not self._state.lines.precedes(head.id, job.id):
            return None
        return head if refuse_size(self._state, head) is not None else None

    def refuse_gpus(self, job: Job, gpus: int) -> Refusal | None:
        """Return which limit of its user a job with so many GPUs would exceed; None if none."""
        return self._state.users.refuse(job, gpus)

    def spare_gpus(self, job: Job) -> int | None:
        """Return how many more GPUs the limit of a job's user allows; None: any number."""
        return self._state.users.spare_gpus(job.spec.uid)

    def precedes(self, job: Job, running: Job) -> bool:
        """Return whether a waiting job is served before a live one that goes behind all others."""
        state = self._state
        return state.queue.precedes_returned(job, state.behind_all(running))

    def suitable(self, job: Job, role: Role) -> Sequence[Device]:
        """Return the devices in service that could run a task of this role if they were idle."""
        return suitable(self._state, job, role)

    def need_mib(self, job: Job, role: Role) -> int | None:
        """Return the MiB that must be reserved per GPU; None if the need is unknown."""
        return effective_need_mib(self._state, job, role)

    def next_by_turn(self, device: str) -> Job | None:
        """Return the job whose turn is next on the device's MPS server.

        None unless one user has had a turn there and another waits.
        """
        job_id = turns(self._state).get(device)
        return None if job_id is None else self._state.jobs[job_id]

    def prefers(self, job: Job) -> bool:
        """Return whether `rank` can differ among devices for this job."""
        spec = job.spec
        ordered = self.settings.gpu_order or spec.prefer_gpus or spec.avoid_gpus
        return bool(ordered or job.use_last)

    def rank(self, job: Job, device: Device) -> Rank:
        """Return how well a device suits a job; the smallest is best. The policy comes after."""
        return rank(device, job, self.settings.gpu_order)

    def offers(self, job: Job, role: Role) -> tuple[Offer, ...]:
        """Return an offer of every device, by index, as `job` would find it."""
        return self.kept_offers.all(job, role)

    def offer(self, job: Job, role: Role, uuid: str, mode: Collocation | None = None) -> Offer:
        """Return one device as `job` would find it. `mode` replaces the job's own mode there."""
        return self.kept_offers.of(job, role, uuid, mode)
