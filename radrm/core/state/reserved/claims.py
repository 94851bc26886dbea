"""How much of a device is taken over an interval, and when a part of it is free.

Times are boot-time seconds; infinity is an unknown end. An interval has its start and not its
end. One without length is the moment of its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

FOREVER = float("inf")


@dataclass(frozen=True, slots=True)
class Claim:
    """MiB that an owner takes in an interval."""

    owner: str
    mib: int
    start_s: float = -FOREVER
    end_s: float = FOREVER

    def meets(self, start_s: float, end_s: float) -> bool:
        """Return whether it takes something in the interval."""
        return self.end_s > start_s and (self.start_s < end_s or self.start_s <= start_s)


def taken_mib(claims: Iterable[Claim], at_s: float) -> int:
    """Return the MiB taken at a moment.

    Claims of one owner do not add up: a job leaves its devices before it starts on its next ones.
    """
    largest: dict[str, int] = {}
    for claim in claims:
        if claim.start_s <= at_s < claim.end_s:
            owner = claim.owner
            if owner not in largest or claim.mib > largest[owner]:
                largest[owner] = claim.mib
    return sum(largest.values())


def steps(claims: Iterable[Claim], start_s: float, end_s: float) -> list[float]:
    """Return the moments of an interval at which more can be taken than before, in order."""
    starts = {claim.start_s for claim in claims if start_s < claim.start_s < end_s}
    return [start_s, *sorted(starts)]


def peak_mib(claims: Sequence[Claim], start_s: float, end_s: float) -> int:
    """Return the most MiB taken at any moment of an interval."""
    found = [claim for claim in claims if claim.meets(start_s, end_s)]
    return max(taken_mib(found, at_s) for at_s in steps(found, start_s, end_s))


def earliest_s(
    claims: Sequence[Claim], room_mib: int, start_s: float, length_s: float
) -> float | None:
    """Return the first moment from `start_s` at which at most `room_mib` are taken for `length_s`.

    None if there is none, because claims without an end take too much.
    """
    ends = {claim.end_s for claim in claims if start_s < claim.end_s < FOREVER}
    for at_s in (start_s, *sorted(ends)):
        if peak_mib(claims, at_s, at_s + length_s) <= room_mib:
            return at_s
    return None
