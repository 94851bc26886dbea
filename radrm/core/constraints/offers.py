"""One device as one job would find it, kept while nothing there changes.

Theory of operation
-------------------
A planner tries waiting jobs after almost every event, and most events change one device. So the
offer of a device is kept for all jobs of one class, and is made again when

- the ledger has changed (`DeviceLedger.version`): a job came or left, a reservation, a reading,
  a drain, another record of the device, other reservations for users;
- its last reading has become stale.

Only a part is replaced if the device's SM activity is another one (a simulated window moves with
the time), or the record of a job there, or of its attempt.

Jobs of one class are alike for all constraints: the same need (`Lines.need_of`), role and user,
and the same mode that was asked for. Whatever a constraint reads of a job must be in the need: so
are the devices that are reserved for others before the job would end.

Never kept, since they depend on more:
- the offers of jobs in no line, and of jobs with reservations of their own (migrations);
- offers of a device that planners have reserved or that leaves: they depend on the time;
- a refusal with a figure of the job or of the time (`_NEVER_KEPT`);
- a refusal that names the job whose turn it is (`fit.py`), once that is another.

Who says what has changed: a version counts the changes of its object, and only that object counts
(`DeviceLedger.version`, `State.version`).

Invariant: a kept offer equals a fresh one, field by field (`tests/core/test_offers.py`).

What a restart sees: nothing is stored.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

from msgspec import Struct, field

from radrm.core.constraints.claims import RULE, free_for, idle_for
from radrm.core.constraints.fit import is_contested, mode_on, refuse_device, turns
from radrm.core.records import Attempt, Device, Job, Refusal, Role
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.state import State
from radrm.core.words import Collocation


class Occupant(Struct, frozen=True):
    """A live job on a device. `since_s`: the boot time at which it came there.

    `alone_smact` is the mean SM activity (0..1) of the readings while it was alone there; None:
    it never was, or they do not show it yet. It is too low for an attempt that is `slowed`.
    `device`: where it is; None: a prediction is not scaled to it.
    """

    job: Job
    attempt: Attempt
    since_s: float
    settled: bool
    alone_smact: float | None
    device: Device | None = None

    @property
    def smact(self) -> float | None:
        """The SM activity that it would show alone: as measured, else as predicted."""
        if self.alone_smact is not None and not self.attempt.slowed:
            return self.alone_smact
        return self.job.smact_in(self.attempt.placement.collocation, self.device)


class Offer(Struct, frozen=True):
    """One device as one job would find it, until its time limit.

    `refusal` is why the core refuses the device; a policy can skip such an offer. `smact` is
    the SM activity, 0..1; if it is None, `smact_refusal` says why. `coarse`: it is only estimated
    from utilization. `warm`, if it is None: waiting brings no figure, since none is read, or its
    source has failed. `job_ids` and `occupants` are the jobs there. `loss`: what sharing in
    this mode costs on such devices, as learned here (`radrm.interference.model`); None: not known.
    """

    device: Device
    mode: Collocation
    idle: bool
    free_mib: int | None
    smact: float | None
    smact_refusal: str | None
    job_ids: tuple[int, ...]
    refusal: Refusal | None
    occupants: tuple[Occupant, ...] = ()
    coarse: bool = False
    warm: bool = False
    loss: float | None = None


_NEVER_KEPT = frozenset({"capacity", "reading", RULE})
"""Refusals of the core that tell a job's own need, the age of a reading, or how long the device is
reserved for others."""


_Class: TypeAlias = tuple[Hashable, int, int, Collocation | None]
"""A job's need and user, the number of the role, and the mode that was asked for."""

OffersOfRole: TypeAlias = tuple[Role, Sequence[Offer]]


class OfDevice(Struct):
    """The kept offers of a device, all made from one version of its ledger; and what they share.

    `free_mib` and `idle` are for a job without reservations of its own there. `fleeting`: the
    offers depend on more than is compared here, so none is kept. `closed`: it takes no job that
    waits, whatever that needs; None: nobody has asked. `turn`: the job that is next on the MPS
    server, whose user has had a turn. `step` and `state_version` say when all this was last found
    right.
    """

    ledger: DeviceLedger
    version: int
    job_ids: tuple[int, ...]
    free_mib: int | None
    idle: bool
    offers: dict[_Class, Offer] = field(default_factory=dict)
    occupants: tuple[Occupant, ...] = ()
    smact: float | None = None
    stale: bool = False
    fleeting: bool = False
    closed: bool | None = None
    turn: int | None = None
    renewed: int = 0
    """How often `occupants` was replaced."""
    step: object = None
    state_version: int = -1


class Offers:
    """Makes offers, or returns kept ones."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._kept: dict[str, OfDevice] = {}

    def all(self, job: Job, role: Role) -> tuple[Offer, ...]:
        """Return an offer of every device, by node and index."""
        which = self._class_of(job, role, None)
        return tuple([self._of(job, role, each.uuid, None, which) for each in self._state.listed])

    def of(self, job: Job, role: Role, uuid: str, mode: Collocation | None) -> Offer:
        """Return a device as `job` would find it. `mode` replaces the job's own mode there."""
        return self._of(job, role, uuid, mode, self._class_of(job, role, mode))

    def _class_of(self, job: Job, role: Role, mode: Collocation | None) -> _Class | None:
        """Return the class of jobs for which an offer to this one counts; None: for no other."""
        state, roles = self._state, job.spec.roles
        need = state.lines.need_of(job.id)
        # A rule may also ask about a job as it could be.
        if need is None or state.jobs.get(job.id) is not job or job.target is not None:
            return None
        if roles[0] is role:
            return need, job.spec.uid, 0, mode
        return (need, job.spec.uid, roles.index(role), mode) if role in roles else None

    def _of(
        self, job: Job, role: Role, uuid: str, mode: Collocation | None, which: _Class | None
    ) -> Offer:
        kept = self.of_device(uuid)
        if which is None or kept.fleeting:
            return self.fresh(job, role, kept.ledger, mode)
        found = kept.offers.get(which)
        if found is None or kept.stale:
            found = self._make(job, role, kept, mode)
            if found.refusal is None or found.refusal.rule not in _NEVER_KEPT:
                kept.offers[which] = found
        elif found.smact != kept.smact or found.occupants is not kept.occupants:
            found = kept.offers[which] = _renewed(found, kept)
        return found

    def of_device(self, uuid: str) -> OfDevice:
        """Return what is kept of a device, as it is now."""
        state = self._state
        ledger, kept = state.ledgers[uuid], self._kept.get(uuid)
        if kept is None or kept.version != ledger.version or kept.ledger is not ledger:
            kept = self._kept[uuid] = self._look(ledger, ledger.free_mib(), ledger.idle_for())
        elif kept.step is state.step and kept.state_version == state.version:
            return kept
        elif not self._are_present(kept.occupants):
            kept.occupants = self._occupants(ledger)
            kept.renewed += 1
        kept.smact = ledger.smact
        kept.stale = ledger.is_stale(state.step.now.boot_s)
        kept.fleeting = ledger.reserved.timed
        kept.closed = None
        turn = turns(state).get(uuid) if is_contested(state, ledger) else None
        if turn != kept.turn:
            kept.turn = turn
            kept.offers.clear()
        kept.step, kept.state_version = state.step, state.version
        return kept

    def _make(self, job: Job, role: Role, kept: OfDevice, mode: Collocation | None) -> Offer:
        """Return a new offer to a job of some class."""
        state, ledger, smact = self._state, kept.ledger, kept.smact
        mode = mode_on(state, job, role, ledger) if mode is None else mode
        return Offer(
            ledger.device,
            mode,
            kept.idle,
            kept.free_mib,
            smact,
            ledger.smact_refusal if smact is None else None,
            kept.job_ids,
            refuse_device(state, job, role, ledger, mode),
            kept.occupants,
            ledger.load.coarse,
            smact is None and ledger.warm,
            state.sharing.loss(ledger.device.name, mode is Collocation.MPS),
        )

    def fresh(
        self, job: Job, role: Role, ledger: DeviceLedger, mode: Collocation | None = None
    ) -> Offer:
        """Return a new offer to any job, made from nothing that is kept."""
        state = self._state
        seen = self._look(ledger, free_for(state, job, ledger), idle_for(state, job, ledger))
        seen.smact = ledger.smact
        return self._make(job, role, seen, mode)

    def _look(self, ledger: DeviceLedger, free_mib: int | None, idle: bool) -> OfDevice:
        found = OfDevice(ledger, ledger.version, tuple(ledger.occupants), free_mib, idle)
        found.occupants = self._occupants(ledger)
        return found

    def _occupants(self, ledger: DeviceLedger) -> tuple[Occupant, ...]:
        jobs, attempts, device = self._state.jobs, self._state.attempts, ledger.device
        return tuple(
            [
                Occupant(jobs[i], attempts[i], each.since_s, each.settled, each.alone_smact, device)
                for i, each in ledger.occupants.items()
            ]
        )

    def _are_present(self, occupants: tuple[Occupant, ...]) -> bool:
        """Return whether the records of the jobs on the device are still the same."""
        jobs, attempts = self._state.jobs, self._state.attempts
        for occupant in occupants:
            job_id = occupant.job.id
            if jobs.get(job_id) is not occupant.job or attempts.get(job_id) is not occupant.attempt:
                return False
        return True


def _renewed(offer: Offer, kept: OfDevice) -> Offer:
    """Return the offer with the present SM activity and occupants. (`replace` is much slower.)"""
    smact = kept.smact
    return Offer(
        offer.device,
        offer.mode,
        offer.idle,
        offer.free_mib,
        smact,
        kept.ledger.smact_refusal if smact is None else None,
        offer.job_ids,
        offer.refusal,
        kept.occupants,
        offer.coarse,
        smact is None and kept.ledger.warm,
        offer.loss,
    )
