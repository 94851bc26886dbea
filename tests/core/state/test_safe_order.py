"""What the core takes from an order, and what it does with nonsense: values of `SafeOrder`."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, nan
from typing import Any

import pytest

from radrm.core.records import Instant, Job, UserUse
from radrm.core.rules import Order
from radrm.core.settings import CoreSettings
from radrm.core.state.isolation import Isolation, TooSlow
from radrm.core.state.queue.order import NO_TURN, Rank, SafeOrder
from tests.contract.broken import raising
from tests.world import GIB, World

NOW = Instant(1000.0, 2000.0)
JOB = World().submit(GIB)
USE = UserUse(1000, "ann")


@dataclass
class Answering(Order):
    """An order that answers what a test says; else what orders answer without a word of theirs."""

    answers: dict[str, Any] = field(default_factory=dict)
    name: str = "answering"
    asked: int = 0

    def _answer(self, method: str, usual: Any) -> Any:
        self.asked += 1
        found = self.answers.get(method, usual)
        return found() if callable(found) else found

    def key(self, job: Job, now: Instant) -> Any:
        return self._answer("key", (job.id,))

    def rank(self, use: UserUse) -> Any:
        return self._answer("rank", ())

    def turn(self, use: UserUse) -> Any:
        return self._answer("turn", NO_TURN)

    def changes_s(self, job: Job, now: Instant) -> Any:
        return self._answer("changes_s", None)

    def bound(self, job: Job, now: Instant) -> Any:
        return self._answer("bound", None)


def asking(**answers: Any) -> tuple[SafeOrder, Isolation, Answering]:
    isolation, order = Isolation(CoreSettings()), Answering(answers)
    isolation.now_s = NOW.boot_s
    return SafeOrder(order, isolation, lambda: NOW), isolation, order


@pytest.mark.parametrize(
    ("told", "taken"),
    [(None, None), (5000, 5000.0), (1000.0, 1001.0), (1001.5, 1001.5), (-7.0, 1001.0)],
)
def test_a_key_is_asked_for_again_at_most_once_a_second(told: Any, taken: float | None) -> None:
    safe, isolation, _ = asking(changes_s=told)
    assert safe.changes_s(JOB) == taken and not isolation.errors(NOW.boot_s)


@pytest.mark.parametrize("told", [raising(KeyError()), "soon", inf, -inf, nan, 1j])
def test_a_key_with_a_wrong_time_changes_never(told: Any) -> None:
    safe, isolation, _ = asking(changes_s=told)
    assert safe.changes_s(JOB) is None
    (line,) = isolation.errors(NOW.boot_s)
    assert "jobs without a key go last, by submission" in line


@pytest.mark.parametrize(
    ("told", "taken"),
    [(None, None), ("until  14:20\nat most", "until 14:20 at most"), ("x" * 301, "x" * 300)],
)
def test_a_bound_is_one_short_line(told: Any, taken: str | None) -> None:
    safe, isolation, _ = asking(bound=told)
    assert safe.bound(JOB) == taken and not isolation.errors(NOW.boot_s)


@pytest.mark.parametrize("told", [raising(KeyError()), 7, b"soon"])
def test_a_wrong_bound_is_none(told: Any) -> None:
    safe, isolation, _ = asking(bound=told)
    assert safe.bound(JOB) is None
    assert len(isolation.errors(NOW.boot_s)) == 1


@pytest.mark.parametrize(
    ("told", "taken"),
    [((3, 2), (3.0, 2.0)), ((-inf, 0.5), (-inf, 0.5)), ((0, 1), (0.0, 1.0)), (NO_TURN, NO_TURN)],
)
def test_a_turn_is_a_least_key_and_a_factor(told: Any, taken: tuple[float, float]) -> None:
    safe, isolation, _ = asking(turn=told, rank=("b", 2))
    assert safe.rank(USE) == Rank((0, ((2, "b"), (1, 2))), *taken)
    assert not isolation.errors(NOW.boot_s)


@pytest.mark.parametrize(
    "told",
    [
        *(raising(KeyError()), None, 7, [1.0, 1.0], (), (1.0,), (1.0, 1.0, 1.0), ("a", 1.0)),
        *((1.0, "a"), (inf, 1.0), (nan, 1.0), (1.0, 0.0), (1.0, -1.0), (1.0, nan), (1.0, inf)),
    ],
)
def test_users_with_a_wrong_turn_go_last(told: Any) -> None:
    safe, isolation, _ = asking(turn=told)
    good, _, _ = asking(rank=((inf, "z"),))
    assert safe.rank(USE) > good.rank(USE)
    (line,) = isolation.errors(NOW.boot_s)
    assert "users without a rank go last" in line


@pytest.mark.parametrize("told", [raising(KeyError()), None, 7, [1], (nan,), ((object(),),)])
def test_users_with_a_wrong_rank_go_last(told: Any) -> None:
    safe, isolation, _ = asking(rank=told)
    assert safe.rank(USE) == Rank((1,), *NO_TURN)
    assert len(isolation.errors(NOW.boot_s)) == 1


@pytest.mark.parametrize("method", ["key", "rank", "turn", "bound"])
def test_an_order_that_takes_too_long_is_asked_again_after_its_pause(method: str) -> None:
    safe, isolation, order = asking(**{method: raising(TooSlow("it took longer than 1 s"))})

    def ask() -> list[Any]:
        return [safe.key(JOB), safe.rank(USE), safe.bound(JOB)]

    ask()
    so_far, order.answers = order.asked, {"bound": "till noon"}
    assert ask() == [(1, *JOB.place), Rank((1,), *NO_TURN), None]
    assert order.asked == so_far and safe.changes_s(JOB) is None
    isolation.now_s += CoreSettings().retry_s
    assert ask() == [(0, ((1, JOB.id),)), Rank((0, ()), *NO_TURN), "till noon"]


def test_an_order_that_raises_is_asked_about_the_next_job() -> None:
    safe, isolation, order = asking(key=raising(KeyError()))
    assert safe.key(JOB) == (1, *JOB.place) and safe.without == {JOB.id}
    assert safe.bound(JOB) is None and safe.changes_s(JOB) is None
    assert order.asked == 1
    order.answers = {}
    assert safe.key(JOB) == (0, ((1, JOB.id),)) and not safe.without
    assert isolation.rests("order", "answering")


def test_only_an_order_with_ranks_or_turns_ranks_users() -> None:
    class Plain(Order):
        name = "plain"

        def key(self, job: Job, now: Instant) -> tuple[int]:
            return (job.id,)

    class Turning(Plain):
        def turn(self, use: UserUse) -> tuple[float, float]:
            return 0.0, 1.0

    plain, turning = (
        SafeOrder(order, Isolation(CoreSettings()), lambda: NOW) for order in (Plain(), Turning())
    )
    assert not plain.ranks and turning.ranks
    assert plain.rank(USE) == Rank((0, ()), *NO_TURN)
    assert plain.changes_s(JOB) is None and plain.bound(JOB) is None
