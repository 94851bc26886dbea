"""Fair shares: the user with the least recent GPU time is next.

The rule of fair-share schedulers (Kay and Lauder, "A fair share scheduler", Communications of the
ACM 31(1), 1988): use decays with a half-life (`core.use_half_life_s`), so nobody pays for it
forever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from radrm.core.records import Instant, Job, Use, UserUse
from radrm.core.rules import Order
from radrm.core.settings import fixed


@dataclass(frozen=True, slots=True)
class Fair(Order):
    """Sort users by their recent GPU time over their weight, and a user's jobs by submission.

    Raises ValueError for a weight that is no number above zero.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    """A user of weight 2 may have twice the GPU time of others. Not named: 1.

    A site whose users have paid for different parts of the server."""
    by_group: bool = False
    """Compare the users' Unix groups first, then the users of one group.

    A site that belongs to several groups."""
    group_weights: Mapping[str, float] = field(default_factory=dict)
    """The same as `weights`, for groups.

    A site whose groups have paid for different parts of the server."""
    ahead_s: float = fixed(3600.0)
    """Each GPU that a user holds counts as used for this long already."""
    name: str = "fair"

    def __post_init__(self) -> None:
        for table in ("weights", "group_weights"):
            weights = getattr(self, table)
            if not isinstance(weights, Mapping):
                raise ValueError(f"{table} = {weights!r} is not a table, as {{ann = 2}}")
            for name, weight in weights.items():
                number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
                if not (number and 0 < weight < float("inf")):
                    raise ValueError(f"{table}.{name} = {weight!r} is not a number above zero")

    def key(self, job: Job, now: Instant) -> tuple[float, ...]:
        return (*job.place, job.id)

    def rank(self, use: UserUse) -> tuple[float, ...]:
        mine = self._relative(use.own, self.weights.get(use.user, 1.0))
        if not self.by_group:
            return (mine,)
        group = self._relative(use.of_group, self.group_weights.get(use.group or "", 1.0))
        return group, mine

    def with_one_more(self, use: UserUse) -> float:
        """Return a user's use with one more GPU, above zero. With `by_group`, times the group's."""
        mine = self._relative(use.own, self.weights.get(use.user, 1.0), more=1)
        if not self.by_group:
            return mine
        group = self.group_weights.get(use.group or "", 1.0)
        return mine * self._relative(use.of_group, group, more=1)

    def _relative(self, use: Use, weight: float, more: int = 0) -> float:
        return max(float(more), use.gpu_s + self.ahead_s * (use.gpus + more)) / weight
