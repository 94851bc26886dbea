"""The user whose clients are on a device's MPS server, since when, and the earlier users.

`radrm.core.constraints.turns` has the theory of operation. Nothing of this is stored: after
a restart a cohort is as old as its oldest live client, and earlier turns are forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from radrm.core.state.holding import Holding
from radrm.core.words import Collocation


@dataclass(frozen=True, slots=True)
class CohortData:
    """A `Cohort` as plain data, without the clients themselves."""

    since_s: float
    last_turn_s: dict[int, float]
    had_turn: int | None


class Cohort:
    """The clients on one MPS server: at most one user's at a time."""

    __slots__ = ("_had_turn", "_holdings", "last_turn_s", "since_s", "uid")

    def __init__(self, holdings: Mapping[int, Holding]) -> None:
        self._holdings = holdings
        self.uid: int | None = None
        """The user whose clients are there; None if there are none."""
        self.since_s = 0.0
        """Boot time since which the present user's clients are there without a gap."""
        self.last_turn_s: dict[int, float] = {}
        """Boot time when each user's last client left, by uid."""
        self._had_turn: int | None = None
        """The user whose turn has ended, until another client comes."""

    def after_join(self, since_s: float) -> None:
        """Note that a client has joined the holdings."""
        # A restart adopts clients in any order: the oldest one counts.
        self.since_s = since_s if self.uid is None else min(self.since_s, since_s)
        self._had_turn = None
        self._find_user()

    def after_leave(self, uid: int, now_s: float, turn_s: float) -> None:
        """Note that a client left, after it left the holdings. `turn_s`: a turn's length."""
        self._find_user()
        if self.uid is not None:
            return
        self.last_turn_s[uid] = now_s
        if now_s - self.since_s >= turn_s:
            self._had_turn = uid

    def _find_user(self) -> None:
        clients = (h.uid for h in self._holdings.values() if h.collocation is Collocation.MPS)
        self.uid = next(clients, None)

    def turn_over(self, now_s: float, turn_s: float) -> int | None:
        """Return the user who has had a turn, until the next client joins; else None."""
        uid = self.uid
        if uid is None:
            return self._had_turn
        return uid if now_s - self.since_s >= turn_s else None

    def data(self) -> CohortData:
        """Return the cohort as plain data, for another process."""
        return CohortData(self.since_s, self.last_turn_s.copy(), self._had_turn)

    def recall(self, data: CohortData) -> None:
        """Take over what `data` says, after its clients have been entered."""
        self._find_user()
        self.since_s, self._had_turn = data.since_s, data.had_turn
        self.last_turn_s = data.last_turn_s.copy()
