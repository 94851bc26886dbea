"""Which of the devices that take a job it gets: the policy chooses, within three limits.

Theory of operation
-------------------
Every planner that uses a policy shares this.

- *Preferences* come before the policy: of the devices that the core and the policy accept, those
  that suit the job best come first (`View.rank`). The policy chooses among equals.
- *Nearness* comes after it: a job on several devices gets idle ones that are near each other
  (`near.py`).
- *Other roles*: no two roles of a job share a device. The role with the fewest devices to spare
  chooses first, and leaves enough for the others.

Invariants: there is an assignment for all roles when the choice begins (`shortage`), and after
each role's choice there is one for the rest. So a choice never fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, TypeAlias

from msgspec import Struct

from radrm.core.constraints.kinds import Rank, shortage_of
from radrm.core.planning.near import find_near
from radrm.core.records import Job
from radrm.core.rules import Ask, Policy
from radrm.core.view import Offer, View
from radrm.structs import replace

Choice: TypeAlias = tuple[Ask, Sequence[Offer]]
"""What a role of a job asks for, and the devices that would take it."""


def shortage(choices: Sequence[Choice]) -> tuple[int, int] | None:
    """Return how many devices some roles want together, and how many they can have, if too few."""
    if len(choices) == 1:
        (ask, some), *_ = choices
        return (ask.gpus, len(some)) if ask.gpus > len(some) else None
    return shortage_of([(ask.gpus, [o.device.uuid for o in some]) for ask, some in choices])


class Chooser(Struct):
    """Chooses the devices of one job. `state` is the policy's, and changes with each choice."""

    view: View
    policy: Policy
    job: Job
    state: Any

    def choose(self, choices: Sequence[Choice]) -> list[Sequence[Offer]]:
        """Return the devices of each role. There must be no `shortage`."""
        found: list[Sequence[Offer]] = [()] * len(choices)
        left = sorted(range(len(choices)), key=lambda i: len(choices[i][1]) - choices[i][0].gpus)
        taken: set[str] = set()
        while left:
            here = left.pop(0)
            free = [(ask, _without(some, *taken)) for ask, some in choices]
            found[here] = self._leave_enough(free[here], [free[i] for i in left])
            taken.update(offer.device.uuid for offer in found[here])
        return found

    def _leave_enough(self, choice: Choice, others: Sequence[Choice]) -> Sequence[Offer]:
        """Return the best devices of a role that leave enough for the other roles.

        While they do not, the role loses the last of these devices that it can do without, and the
        policy chooses again. Some assignment always remains, so this ends.
        """
        ask, eligible = choice
        while True:
            chosen, state = self._best(ask, eligible)
            taken = {offer.device.uuid for offer in chosen}
            if shortage([(other, _without(some, *taken)) for other, some in others]) is None:
                self.state = state
                return chosen
            fewer = (_without(eligible, offer.device.uuid) for offer in reversed(chosen))
            eligible = next(left for left in fewer if shortage([(ask, left), *others]) is None)

    def _best(self, ask: Ask, eligible: Sequence[Offer]) -> tuple[Sequence[Offer], Any]:
        """Return the policy's devices of the best ranks, and its new state.

        A job on several devices gets devices of one rank, if enough of them have one that is no
        more avoided than others; else it gets the best ranks together. Devices that no list names
        do not come before enough that one does.
        """
        state = self.state
        if not self.view.prefers(self.job):
            return self._near(ask, eligible)
        ranked = sorted((self.view.rank(self.job, o.device), i) for i, o in enumerate(eligible))
        least, most = ranked[0][0].avoided, ranked[ask.gpus - 1][0].avoided
        tiers = [
            (rank, [eligible[i] for _, i in tier])
            for rank, tier in groupby(ranked, key=lambda each: each[0])
        ]
        listed = [self._is_listed(rank) for rank, _ in ranked if rank.avoided == least]
        enough = sum(listed) >= ask.gpus
        for rank, tier in tiers:
            if enough and not self._is_listed(rank):
                continue
            if least == most == rank.avoided and len(tier) >= ask.gpus:
                return self._near(ask, tier)
        chosen: list[Offer] = []
        for _, tier in tiers:
            left = ask.gpus - len(chosen)
            if len(tier) >= left:
                found, state = self.policy.choose(replace(ask, gpus=left), tier, state)
                return [*chosen, *found], state
            chosen += tier
        return chosen, state

    def _is_listed(self, rank: Rank) -> bool:
        """Return whether the job's list names a device of this rank; without one, the site's."""
        own, site = self.job.spec.prefer_gpus, self.view.settings.gpu_order
        return rank.own < len(own) if own else rank.site < len(site)

    def _near(self, ask: Ask, equals: Sequence[Offer]) -> tuple[Sequence[Offer], Any]:
        """Return the policy's devices among equals, near ones if there are."""
        chosen, state = self.policy.choose(ask, equals, self.state)
        near = find_near(chosen, equals)
        return (chosen, state) if near is None else self.policy.choose(ask, near, self.state)


def _without(offers: Sequence[Offer], *uuids: str) -> list[Offer]:
    return [offer for offer in offers if offer.device.uuid not in uuids]
