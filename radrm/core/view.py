"""The state as a rule can see it: read-only, and always current.

After a proposal is carried out, the view shows the change. The queue is read lazily, so a rule
pays only for the jobs that it looks at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from radrm.core.constraints.modes import mode_on
from radrm.core.constraints.need import effective_need_mib
from radrm.core.constraints.nodes import books_nothing, refuse_bookings, refuse_size
from radrm.core.constraints.overlap import interval_of
from radrm.core.constraints.placement import refuse_device
from radrm.core.constraints.turns import turns
from radrm.core.records import (
    Attempt,
    Device,
    Instant,
    Job,
    NodeUse,
    Placement,
    Refusal,
    Reservation,
    Role,
)
from radrm.core.settings import CoreSettings
from radrm.core.state.isolation import Isolation
from radrm.core.state.state import State, owner_of
from radrm.core.words import Collocation


@dataclass(frozen=True, slots=True)
class Offer:
    """One device as one job would find it, until its time limit.

    `refusal` is why the core refuses the device; a policy can skip such an offer. `smact` is
    the SM activity, 0..1; if it is None, `smact_refusal` says why. `occupants` are job ids.
    """

    device: Device
    mode: Collocation
    idle: bool
    free_mib: int | None
    smact: float | None
    smact_refusal: str | None
    occupants: tuple[int, ...]
    refusal: Refusal | None


class View:
    """What the rules see of the state."""

    def __init__(self, state: State) -> None:
        self._state = state

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

    @property
    def version(self) -> int:
        """Grows with every change. A slow planner returns it with its answer."""
        return self._state.version

    def head(self, gpuless: bool = False) -> Job | None:
        """Return the first job of the line for GPUs, or of the line for jobs without."""
        lines = self._state.waiting
        job_id = (lines.gpuless if gpuless else lines.gpu).head()
        return None if job_id is None else self._state.jobs[job_id]

    def waiting(self, gpuless: bool = False) -> Iterator[Job]:
        """Yield the jobs of one line, in the order of service."""
        lines = self._state.waiting
        for job_id in lines.gpuless if gpuless else lines.gpu:
            yield self._state.jobs[job_id]

    def running(self) -> Iterator[tuple[Job, Attempt]]:
        """Yield the jobs with a live attempt, by id."""
        yield from self._state.running()

    def job(self, job_id: int) -> Job | None:
        """Return an unfinished job; None if there is none with this id."""
        return self._state.jobs.get(job_id)

    def devices(self) -> tuple[Device, ...]:
        """Return the devices that have not vanished, by index."""
        found = [le.device for le in self._state.ledgers.values() if not le.vanished]
        return tuple(sorted(found, key=lambda d: (d.node, d.index)))

    def reservations(self, device: str) -> tuple[Reservation, ...]:
        """Return the reservations on a device."""
        return self._state.ledgers[device].reserved.every()

    def nodes(self) -> tuple[NodeUse, ...]:
        """Return the nodes with the CPUs and the host memory that jobs have booked, by name."""
        return self._state.nodes.uses()

    def refuse_on_nodes(self, job: Job, placement: Placement | None = None) -> Refusal | None:
        """Return why the nodes cannot give a job its CPUs and host memory now; None if they can.

        None as `placement`: at the job's smallest size, on any of the nodes.
        """
        if placement is None:
            return refuse_size(self._state, job)
        return refuse_bookings(self._state, job, placement)

    def first_for_nodes(self, job: Job) -> Job | None:
        """Return the head of the other line if it waits for CPUs or host memory before `job`.

        None also if `job` takes neither. The two lines have their devices apart, but not the
        nodes: jobs of one line could take forever what the head of the other one waits for.
        """
        head = None if books_nothing(job) else self.head(gpuless=bool(job.spec.gpus))
        if head is None or not self._state.waiting.precedes(head.id, job.id):
            return None
        return head if refuse_size(self._state, head) is not None else None

    def need_mib(self, job: Job, role: Role) -> int | None:
        """Return the MiB that must be reserved per GPU; None if the need is unknown."""
        return effective_need_mib(self._state, job, role)

    def next_by_turn(self, device: str) -> Job | None:
        """Return the job whose turn is next on the device's MPS server.

        None unless one user has had a turn there and another waits.
        """
        job_id = turns(self._state).get(device)
        return None if job_id is None else self._state.jobs[job_id]

    def offers(self, job: Job, role: Role) -> tuple[Offer, ...]:
        """Return an offer of every device, by index, as `job` would find it."""
        return tuple(self.offer(job, role, device.uuid) for device in self.devices())

    def offer(self, job: Job, role: Role, uuid: str, mode: Collocation | None = None) -> Offer:
        """Return one device as `job` would find it. `mode` replaces the job's own mode there."""
        ledger = self._state.ledgers[uuid]
        owner, smact = owner_of(job.id), ledger.smact
        interval = interval_of(self._state, job)
        return Offer(
            device=ledger.device,
            mode=mode_on(self._state, job, role, ledger) if mode is None else mode,
            idle=ledger.idle_for(owner, *interval),
            free_mib=ledger.free_mib(owner, *interval),
            smact=smact,
            smact_refusal=ledger.smact_refusal if smact is None else None,
            occupants=tuple(ledger.holdings),
            refusal=refuse_device(self._state, job, role, ledger, mode),
        )
