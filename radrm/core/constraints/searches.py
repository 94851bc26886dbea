"""What policies have answered about offers, and searches that found too few devices, kept.

Theory of operation
-------------------
Planners try the same jobs after almost every event, and most of them find no room. A search that
found too few devices (`Failure`) is kept for its job, with the *moment* at which it was right.

A moment is over when any device may take other jobs than before (`moment`). It is looked for once
after each change of the state, and notes which devices have changed. Only these are asked again,
and those that may answer otherwise at any time. Most of them need no question: the core refuses all
jobs of a class alike, and a job that lacked memory still lacks it where less is free than it needs
(`Failure.least`). Then the refusal stands, and only its words may be old; they are renewed when
somebody wants them.

Invariant: a kept failure equals a fresh one (`tests/core/test_offers.py`).

What a restart sees: nothing is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from radrm.core.constraints.fit import can_be_time_sliced
from radrm.core.constraints.offers import OfDevice, Offer, Offers
from radrm.core.records import Device, Job, Refusal, Role
from radrm.core.state.state import State

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


class Searches:
    """The searches that failed, each the last of its job."""

    def __init__(self, state: State, offers: Offers) -> None:
        self._state, self._offers = state, offers
        self._failed: dict[int, Failure] = {}
        self._many = _FEW
        self._looked: tuple[object, int] = None, -1
        self._look: Sequence[tuple[tuple[object, ...], tuple[object, ...]]] = ()
        self._moments = 0
        self._present: Sequence[OfDevice] = ()
        """What is kept of the listed devices, as it is at this moment."""
        self._changed: list[tuple[int, int]] = []
        """The moment at which each listed device has changed last, and the one at which more has
        changed than its SM activity and the occupants' records."""
        self._since: dict[int, list[tuple[int, bool]]] = {}
        """The devices changed since an earlier moment, and whether more has changed."""

    def moment(self) -> int:
        """Return a number that grows when a device may take other jobs than before."""
        state = self._state
        if self._looked[0] is not state.step or self._looked[1] != state.version:
            self._looked = state.step, state.version
            self._present = kept = [self._offers.of_device(device.uuid) for device in state.listed]
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

    def last(self, policy: object, job: Job) -> Failure | None:
        """Return the last search by `policy` for the job, if it found too few devices."""
        kept = self._failed.get(job.id)
        if kept is None or kept.policy is not policy or kept.job is not job:
            return None
        return kept if kept.listed is self._state.listed else None

    def unsure(self, failure: Failure, words: bool) -> Collection[int]:
        """Return the places of the devices that the search may find otherwise now: they must be
        asked again. `words`: also those that refuse, but perhaps in other words."""
        moment, every = self.moment(), self._state.for_users.every
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
        failure.moment = self.moment()

    def keep(
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
        kept, several = self._offers.of_device(offer.device.uuid), failure.wanted > 1
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


def _room(kept: dict[Any, Any]) -> int:
    """Return how many may be kept until the next look, and forget all if these are too many."""
    if len(kept) >= _MOST:
        kept.clear()
    return min(_MOST, _FEW + 2 * len(kept))
