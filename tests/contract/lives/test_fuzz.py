"""Hostile lives: all that people, devices and a daemon's death can do to jobs, in any order.

After every move the living scheduler is compared with one that is restored from what was
saved, and every reservation is checked against a model that knows only what was
asked and how jobs have ended.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import (
    Device,
)
from radrm.core.rules import Order, Policy
from radrm.core.words import Condition
from radrm.policies.sharing import Magm, RoundRobin
from tests.contract.lives.life import Life
from tests.examples import lives
from tests.world import GIB, ORDERS, gpus

SERVERS = (
    gpus(1),
    gpus(2),
    (*gpus(1), Device(uuid="GPU-9", index=9, name="H100", total_mib=80 * GIB)),
)
POLICIES = (Magm(), Magm(margin_mib=0, min_free_mib=0), RoundRobin())
"""The last looks at nothing, so that all depends on what the core does not let pass."""


def move(does: Callable[..., None], **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(partial, st.just(does), **arguments)


picks = st.integers(0, 30)
wishes = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(Condition)), max_size=2)
submits = move(
    Life.submit,
    memory=st.sampled_from([None, GIB, GIB, 20 * GIB, 50 * GIB]),
    count=st.sampled_from([0, 1, 1, 1, 2]),
    wanted=wishes,
    elements=st.sampled_from([0, 0, 0, 2, 4]),
    at_once=st.sampled_from([None, 1, 2]),
    retries=st.sampled_from([0, 0, 1]),
    priority=st.sampled_from([0, 0, 5]),
    limit=st.sampled_from([None, None, 100.0]),
    exclusive=st.sampled_from([False, False, True]),
)
moves = st.one_of(
    submits,
    submits,
    move(Life.take_in_more_of_an_array, pick=picks),
    move(Life.cancel, pick=picks),
    move(Life.hold_or_release, pick=picks, held=st.booleans()),
    move(Life.requeue, pick=picks),
    move(Life.edit_what_it_follows, pick=picks, wanted=wishes),
    move(
        Life.edit_the_rest,
        pick=picks,
        priority=st.integers(-1, 6),
        count=st.integers(0, 2),
        limit=st.sampled_from([None, 5.0, 50.0, 500.0]),
    ),
    move(
        Life.end,
        pick=picks,
        how=st.sampled_from(["ok", "ok", "bad", "oom", "lost", "never", "void", "passes"]),
    ),
    move(Life.start_at_last, pick=picks),
    move(Life.report, pick=picks, step=st.floats(0, 9)),
    move(Life.predict_again, pick=picks, seconds=st.floats(1, 9999)),
    move(
        Life.be_another_host,
        launches=st.sampled_from(["work", "work", "wait", "pass", "fail"]),
        patient=st.booleans(),
    ),
    move(Life.pass_time, seconds=st.sampled_from([1.0, 6.0, 45.0, 200.0])),
    move(Life.restart),
    move(Life.drain_or_resume, pick=picks, drained=st.booleans()),
    move(Life.a_device_vanishes, pick=picks, restart=st.booleans()),
    move(Life.it_returns),
)


@lives(100)
@given(
    server=st.sampled_from(SERVERS),
    policy=st.sampled_from(POLICIES),
    order=st.sampled_from(ORDERS),
    moves=st.lists(moves, min_size=20, max_size=40),
)
def test_whatever_happens_nobody_is_lost_forgotten_or_served_twice(
    server: tuple[Device, ...], policy: Policy, order: Order, moves: list[Callable[[Life], None]]
) -> None:
    life = Life(server, policy, order)
    for make in moves:
        make(life)
        life.check()
    life.end_well()
