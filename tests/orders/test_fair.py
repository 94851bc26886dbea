"""Fair shares: the user with the least recent GPU time is next."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core.records import Use, UserUse
from radrm.orders import Fair
from radrm.policies.exclusive import Exclusive
from tests.world import GIB, World, gpus

ANN, BOB, CARL = ({"user": name, "uid": uid} for name, uid in (("ann", 1), ("bob", 2), ("carl", 3)))


def server(count: int = 1, **changes: Any) -> World:
    return World(gpus(count), policy=Exclusive(), order=Fair(**changes))


def line(world: World) -> list[int]:
    return list(world.scheduler.state.lines.gpu)


def test_the_user_with_less_use_is_next_and_a_users_jobs_keep_their_order() -> None:
    world = server()
    running = world.submit(GIB, **ANN)
    world.pass_time(100)
    hers = [world.submit(GIB, **ANN).id for _ in range(3)]
    his = [world.submit(GIB, **BOB).id for _ in range(2)]
    assert line(world) == [*his, *hers]
    world.end(running)
    assert world.where(his[0]), "bob has used nothing"
    assert line(world) == [*hers, his[1]], "and now holds a GPU, which counts at once"
    world.end(his[0])
    assert world.where(his[1])


def test_users_take_turns_when_many_gpus_are_free_at_once() -> None:
    world = server(4)
    wide = world.submit(GIB, gpus=4, user="zoe", uid=9)
    hers = [world.submit(GIB, **ANN).id for _ in range(4)]
    his = [world.submit(GIB, **BOB).id for _ in range(4)]
    world.end(wide)
    assert [len(world.where(i)) for i in hers[:2] + his[:2]] == [1] * 4


def test_a_users_rank_changes_while_nothing_happens() -> None:
    world = server(2, ahead_s=0.0)
    world.end(world.submit(GIB, **BOB))
    bobs = world.submit(GIB, gpus=1, **BOB)
    world.pass_time(50)
    world.end(bobs)
    world.submit(GIB, **ANN)
    world.submit(GIB, **CARL)
    ann, bob = world.submit(GIB, **ANN).id, world.submit(GIB, **BOB).id
    assert line(world) == [ann, bob]
    world.pass_time(100)
    assert line(world) == [bob, ann]


def test_priority_is_above_the_ranks() -> None:
    world = server()
    world.submit(GIB, **ANN)
    world.pass_time(100)
    bob, urgent = world.submit(GIB, **BOB).id, world.submit(GIB, priority=1, **ANN).id
    assert line(world) == [urgent, bob]


def use(gpu_s: float, gpus: float = 0.0, group_s: float = 0.0, user: str = "ann") -> UserUse:
    return UserUse(1, user, Use(gpu_s, gpus), "staff", Use(group_s))


@pytest.mark.parametrize(
    ("order", "given", "rank"),
    [
        (Fair(), use(100, 2), (7300,)),
        (Fair(ahead_s=10), use(100, 2), (120,)),
        (Fair(weights={"ann": 4.0}), use(100), (25,)),
        (Fair(weights={"ann": 4.0}), use(100, user="bob"), (100,)),
        (Fair(by_group=True), use(1, group_s=50), (50, 1)),
        (Fair(by_group=True, group_weights={"staff": 5}), use(1, group_s=50), (10, 1)),
    ],
)
def test_a_rank(order: Fair, given: UserUse, rank: tuple[float, ...]) -> None:
    assert order.rank(given) == rank


def test_weights_are_a_table() -> None:
    with pytest.raises(ValueError, match=r"^weights = 3 is not a table, as {ann = 2}$"):
        Fair(weights=3)


@pytest.mark.parametrize("weight", [0, -1, True, "2", float("inf"), float("nan")])
def test_a_weight_must_be_above_zero(weight: Any) -> None:
    with pytest.raises(ValueError, match=r"^weights.ann = .* is not a number above zero$"):
        Fair(weights={"ann": weight})
