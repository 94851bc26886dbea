"""What a rule may see: the state, read-only, as it is at this moment.

A view is live: after a proposal was accepted it shows what that changed. Its
queue is walked lazily; a rule pays only for the jobs it looks at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from radrm.core.records import Attempt, Device, Instant, Job, Refusal, Reservation, Role
from radrm.core.settings import CoreSettings
from radrm.core.state.isolation import Isolation
from radrm.core.state.state import State, owner_of
from radrm.core.validation import effective_need_mib, mode_on, refuse_device, turns
from radrm.core.words import Collocation


@dataclass(frozen=True, slots=True)
class Offer:
    """One device as one job would find it.

    `refusal` is the core's own no; a policy need not look at such an offer.
    `smact` is None with `smact_doubt` saying why.
    """

    device: Device
    mode: Collocation
    idle: bool
    free_mib: int | None
    smact: float | None
    smact_doubt: str | None
    occupants: tuple[int, ...]
    refusal: Refusal | None


class View:
    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def now(self) -> Instant:
        return self._state.turn.now

    @property
    def isolation(self) -> Isolation:
        """Which rules have failed and rest: for a planner that asks other rules."""
        return self._state.isolation

    @property
    def settings(self) -> CoreSettings:
        return self._state.settings

    @property
    def version(self) -> int:
        """Grows with every change; a slow planner returns it with its answer."""
        return self._state.version

    def head(self, gpuless: bool = False) -> Job | None:
        """The job to serve next, of those for GPUs or of those that need none."""
        lines = self._state.waiting
        job_id = (lines.gpuless if gpuless else lines.gpu).head()
        return None if job_id is None else self._state.jobs[job_id]

    def waiting(self, gpuless: bool = False) -> Iterator[Job]:
        """The jobs of one line that could start, in the order of service."""
        lines = self._state.waiting
        for job_id in lines.gpuless if gpuless else lines.gpu:
            yield self._state.jobs[job_id]

    def running(self) -> Iterator[tuple[Job, Attempt]]:
        """Jobs with a live attempt, by id."""
        yield from self._state.running()

    def job(self, job_id: int) -> Job | None:
        return self._state.jobs.get(job_id)

    def devices(self) -> tuple[Device, ...]:
        """The devices there are, by index."""
        found = [le.device for le in self._state.ledgers.values() if not le.vanished]
        return tuple(sorted(found, key=lambda d: (d.node, d.index)))

    def reservations(self, device: str) -> tuple[Reservation, ...]:
        return tuple(self._state.ledgers[device].reservations.values())

    def need_mib(self, job: Job, role: Role) -> int | None:
        """What must be promised per GPU; None when nothing is known."""
        return effective_need_mib(self._state, job, role)

    def next_by_turn(self, device: str) -> Job | None:
        """The job whose turn it is next on the device's MPS server, where one user has had
        its turn there and another waits."""
        job_id = turns(self._state).get(device)
        return None if job_id is None else self._state.jobs[job_id]

    def offers(self, job: Job, role: Role) -> tuple[Offer, ...]:
        """Every device, by index, as `job` would find it."""
        return tuple(self.offer(job, role, device.uuid) for device in self.devices())

    def offer(self, job: Job, role: Role, uuid: str, mode: Collocation | None = None) -> Offer:
        """One device as `job` would find it; `mode`: sharing it so, not as it would itself."""
        ledger = self._state.ledgers[uuid]
        owner = owner_of(job.id)
        return Offer(
            device=ledger.device,
            mode=mode_on(self._state, job, role, ledger) if mode is None else mode,
            idle=ledger.idle_for(owner),
            free_mib=ledger.free_mib(owner),
            smact=ledger.smact,
            smact_doubt=ledger.smact_doubt,
            occupants=tuple(ledger.holdings),
            refusal=refuse_device(self._state, job, role, ledger, mode),
        )
