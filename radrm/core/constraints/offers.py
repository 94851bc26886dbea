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
- a refusal that names the job whose turn it is (`core/constraints/fit.py`), once that is another.

Who says what has changed: a version counts the changes of its object, and only that object counts
(`DeviceLedger.version`, `State.version`). From them, and from what depends on the time, come the
*moments* here: a moment is over when any device may take other jobs than before (`_moment`). It is
looked for once after each change of the state, and notes which devices have changed.

A search that found too few devices is kept, too, for its job, with its moment. Only the devices
that have changed since are asked again, and those that may answer otherwise at any time. Most of
these need no question: the core refuses all jobs of a class alike, and a job that lacked memory
still lacks it where less is free than it needs (`Failure.least`). Then the refusal stands, and only
its words may be old; they are renewed when somebody wants them.

Invariant: a kept offer equals a fresh one, field by field, and a kept failure a fresh one
(`tests/core/test_offers.py`).

What a restart sees: nothing is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field

from radrm.core.constraints.claims import RULE, free_for, idle_for
from radrm.core.constraints.fit import can_be_time_sliced, is_contested, mode_on, turns
from radrm.core.constraints.placement import refuse_device
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
Refusals: TypeAlias = tuple[Refusal, ...]


_MOST = 4096
"""Kept answers, and kept failures."""
_FEW = 64
"""So many are kept before a look for those of jobs that have started or ended."""


class Answers:
    """What a policy has answered about the offers of one job, while the offers are the same.

    A rule is pure, so the same question has the same answer. `jobs` has the present records: an
    answer about another record of a job never counts again, and is dropped in time.
    """

    def __init__(self, jobs: Mapping[int, Job]) -> None:
        self._jobs = jobs
        self._kept: dict[tuple[int, str], tuple[object, Offer, Job, object, Refusal | None]] = {}
        self._many = _FEW

    def find(
        self, policy: object, job: Job, need: object, offer: Offer
    ) -> tuple[Refusal | None] | None:
        """Return the answer, alone in a tuple; None if this was not asked. `need`: the rest of the
        question."""
        kept = self._kept.get((job.id, offer.device.uuid))
        if (
            kept is not None
            and kept[1] is offer
            and kept[0] is policy
            and kept[2] is job
            and kept[3] == need
        ):
            return kept[4:]
        return None

    def keep(
        self, policy: object, job: Job, need: object, offer: Offer, answer: Refusal | None
    ) -> None:
        if len(self._kept) >= self._many:
            kept, jobs = self._kept, self._jobs
            self._kept = {key: each for key, each in kept.items() if jobs.get(key[0]) is each[2]}
            self._many = _room(self._kept)
        self._kept[job.id, offer.device.uuid] = policy, offer, job, need, answer


class _OfDevice(Struct):
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


class Failure(Struct):
    """A search that found too few of the listed devices, of each role in turn.

    `least`: the memory (MiB) that must be free on a busy device before its policy may take the job
    there; 0: the core refuses it; None: the refusal may end with any change of the device.
    `able`: the places of those that may take the job, fewer than `wanted`. `fleeting`: those that
    may answer otherwise at any time. `old`: those whose reasons may be old. `moment` is that of the
    devices for which the search was last found right.

    `role` has the job's GPUs; None: several roles have some, and no device is asked by itself.
    """

    policy: object
    job: Job
    role: Role | None
    wanted: int
    listed: list[Device]
    why: list[Refusal]
    least: list[float | None]
    able: set[int] = field(default_factory=set)
    fleeting: set[int] = field(default_factory=set)
    old: set[int] = field(default_factory=set)
    moment: int = -1


class Offers:
    """Makes offers, or returns kept ones."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._kept: dict[str, _OfDevice] = {}
        self._failed: dict[int, Failure] = {}
        self._many = _FEW
        self._looked: tuple[object, int] = None, -1
        self._look: Sequence[tuple[tuple[object, ...], tuple[object, ...]]] = ()
        self._moments = 0
        self._present: Sequence[_OfDevice] = ()
        """What is kept of the listed devices, as it is at this moment."""
        self._changed: list[tuple[int, int]] = []
        """The moment at which each listed device has changed last, and the one at which more has
        changed than its SM activity and the occupants' records."""
        self._since: dict[int, list[tuple[int, bool]]] = {}
        """The devices changed since an earlier moment, and whether more has changed."""

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
        kept = self._of_device(uuid)
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

    def _of_device(self, uuid: str) -> _OfDevice:
        """Return what is kept of a device, as it is now."""
        state = self._state
        ledger, kept = state.ledgers[uuid], self._kept.get(uuid)
        if kept is None or kept.version != ledger.version or kept.ledger is not ledger:
            free, idle = ledger.free_mib(), ledger.idle_for()
            kept = _OfDevice(ledger, ledger.version, tuple(ledger.occupants), free, idle)
            kept.occupants = self._occupants(ledger)
            self._kept[uuid] = kept
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

    def _make(self, job: Job, role: Role, kept: _OfDevice, mode: Collocation | None) -> Offer:
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

    def mark(self) -> tuple[object, ...]:
        """Return a value that differs if an offer to a job without reservations may differ.

        But for those that depend on the time: of devices that planners have reserved.
        """
        ledgers, now_s = self._state.ledgers.items(), self._state.step.now.boot_s
        return tuple([(i, each.version, each.smact, each.is_stale(now_s)) for i, each in ledgers])

    def _moment(self) -> int:
        """Return a number that grows when a device may take other jobs than before."""
        state = self._state
        if self._looked[0] is not state.step or self._looked[1] != state.version:
            self._looked = state.step, state.version
            self._present = kept = [self._of_device(device.uuid) for device in state.listed]
            look = [((k.version, k.stale, k.fleeting, k.turn), (k.renewed, k.smact)) for k in kept]
            if look != self._look:
                self._moments += 1
                self._note_changes(look)
        return self._moments

    def _note_changes(self, look: Sequence[tuple[tuple[object, ...], tuple[object, ...]]]) -> None:
        """Note the devices that have changed at this moment."""
        now, before = self._moments, self._look
        if len(look) != len(before):
            self._changed = [(now, now)] * len(look)
        else:
            for place, new in enumerate(look):
                if new != before[place]:
                    more = now if new[0] != before[place][0] else self._changed[place][1]
                    self._changed[place] = now, more
        self._look, self._since = look, {}

    def _changed_since(self, moment: int) -> Sequence[tuple[int, bool]]:
        """Return the devices changed since then, by place, and whether more has changed than SM
        activity and the occupants' records."""
        if moment not in self._since:
            changed = enumerate(self._changed)
            self._since[moment] = [(i, more > moment) for i, (at, more) in changed if at > moment]
        return self._since[moment]

    def failure(self, policy: object, job: Job) -> Failure | None:
        """Return the last search by `policy` for the job, if it found too few devices."""
        kept = self._failed.get(job.id)
        if kept is None or kept.policy is not policy or kept.job is not job:
            return None
        return kept if kept.listed is self._state.listed else None

    def unsure(self, failure: Failure, words: bool) -> Collection[int]:
        """Return the places of the devices that the search may find otherwise now: they must be
        asked again. `words`: also those that refuse, but perhaps in other words."""
        moment, every = self._moment(), self._state.for_users.every
        known = failure.moment == moment and not failure.fleeting and not every
        if known and not (words and failure.old):
            return ()
        found = failure.fleeting | failure.old if words else set(failure.fleeting)
        if failure.moment != moment:
            each, least = len(failure.listed), failure.least
            for place, more in self._changed_since(failure.moment):
                for at in range(place, len(least), each):
                    if not more and least[at] is not None:
                        continue
                    if words or not self._refuses_still(failure, at):
                        found.add(at)
        if every:
            # The refusal for a reservation of others names the time that is left.
            on, listed = self._state.for_users.on, failure.listed
            found |= {i for i in range(len(failure.least)) if on(listed[i % len(listed)].uuid)}
        if not found:
            failure.moment = moment
        return found

    def _refuses_still(self, failure: Failure, at: int) -> bool:
        """Return whether a device that has changed refuses certainly, in whatever words."""
        least, kept = failure.least[at], self._present[at % len(failure.listed)]
        if kept.fleeting:
            return False
        if kept.closed is None:
            kept.closed = kept.ledger.is_closed(self._state.step.now.boot_s)
        if kept.closed:
            failure.able.discard(at)
        elif not least or kept.idle or kept.free_mib is None or kept.free_mib >= least:
            return False
        failure.old.add(at)
        return True

    def settle(self, failure: Failure) -> None:
        """Note that a search fails with the devices as they are now."""
        failure.moment = self._moment()

    def keep_failure(
        self,
        policy: object,
        job: Job,
        roles: Sequence[Role],
        why: Sequence[Refusal],
    ) -> Failure:
        """Keep a search that found too few devices for these roles, for these reasons.

        For one role, `renew` then notes the answer of each device."""
        if len(self._failed) >= self._many:
            failed, jobs = self._failed, self._state.jobs
            self._failed = {i: each for i, each in failed.items() if jobs.get(i) is each.job}
            self._many = _room(self._failed)
        listed = self._state.listed
        least: list[float | None] = [None] * (len(listed) * len(roles))
        role = roles[0] if len(roles) == 1 else None
        found = Failure(policy, job, role, job.gpus, listed, list(why), least)
        self._failed[job.id] = found
        self.settle(found)
        return found

    def renew(
        self,
        failure: Failure,
        place: int,
        offer: Offer,
        refusal: Refusal | None,
        steady: frozenset[str],
    ) -> bool:
        """Note a device's present answer in a search that fails. Return whether it fails still.

        `steady`: the policy's `steady_refusals`."""
        kept, several = self._of_device(offer.device.uuid), failure.wanted > 1
        if kept.fleeting or kept.stale:
            failure.fleeting.add(place)
        elif failure.fleeting:
            failure.fleeting.discard(place)
        least: float | None = None
        if refusal is not None and refusal is not offer.refusal and refusal.rule in steady:
            least = refusal.needed
        elif offer.refusal is not None:
            least = 0
        if several and not least and can_be_time_sliced(failure.job, offer.mode):
            refusal = least = None  # it may take the job in that mode
        failure.least[place] = least
        if refusal is None:
            failure.able.add(place)
        elif failure.able:
            failure.able.discard(place)
        if several:
            failure.old.add(place)
        elif refusal is not None:
            failure.why[place] = refusal
            if failure.old:
                failure.old.discard(place)
        return len(failure.able) < failure.wanted

    def fresh(
        self, job: Job, role: Role, ledger: DeviceLedger, mode: Collocation | None = None
    ) -> Offer:
        """Return a new offer to any job, made from nothing that is kept."""
        state, smact = self._state, ledger.smact
        mode = mode_on(state, job, role, ledger) if mode is None else mode
        return Offer(
            ledger.device,
            mode,
            idle_for(state, job, ledger),
            free_for(state, job, ledger),
            smact,
            ledger.smact_refusal if smact is None else None,
            tuple(ledger.occupants),
            refuse_device(state, job, role, ledger, mode),
            self._occupants(ledger),
            ledger.load.coarse,
            smact is None and ledger.warm,
            state.sharing.loss(ledger.device.name, mode is Collocation.MPS),
        )

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


def _room(kept: dict[Any, Any]) -> int:
    """Return how many may be kept until the next look, and forget all if these are too many."""
    if len(kept) >= _MOST:
        kept.clear()
    return min(_MOST, _FEW + 2 * len(kept))


def _renewed(offer: Offer, kept: _OfDevice) -> Offer:
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
