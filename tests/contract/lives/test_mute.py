"""Hosts that never answer, answer late or answer twice, in any order of events and restarts.

No reservation without a living reason, no action without an end, no job stopped by a weaker
reason than the one that stands, and no job runs twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import Device
from radrm.core.rules import Planner
from radrm.core.words import DeviceKind, Resizing
from radrm.planners.slots import Slots
from radrm.policies.sharing import Magm
from tests.contract.lives.mute import PROPOSALS, Mute
from tests.contract.lives.test_fuzz import move
from tests.examples import lives
from tests.world import default_planner, gpus

SERVERS = (gpus(2), gpus(3), gpus(2, kind=DeviceKind.MIG, profile="1g.5gb"))
WITH_SLOTS = (default_planner(), Slots(Magm(), length_s=60.0, warn_s=20.0))
numbers = st.integers(0, 9)
submits = move(
    Mute.hand_in,
    saves=st.sampled_from(["signal", "signal", "exit", "none"]),
    requeue=st.booleans(),
    limit=st.sampled_from([None, None, 200.0]),
    estimating=st.sampled_from([False, False, True]),
    how=st.sampled_from([Resizing.LIVE, Resizing.LIVE, Resizing.RESTART, Resizing.NONE]),
)
proposes = move(
    Mute.propose, number=numbers, what=st.sampled_from(PROPOSALS), where=st.integers(0, 2)
)
waits = move(Mute.pass_time, seconds=st.sampled_from([1.0, 5.0, 31.0, 61.0, 121.0]))
moves = st.one_of(
    submits,
    proposes,
    proposes,
    waits,
    waits,
    move(Mute.be_mute, mute=st.sampled_from([True, True, False])),
    move(
        Mute.report,
        number=numbers,
        how=st.sampled_from(["started", "started", "void", "lost", "ok", "bad", "saved", "left"]),
    ),
    move(Mute.report_again, number=st.integers(0, 99)),
    move(Mute.answer, number=numbers, well=st.booleans()),
    move(Mute.answer, number=st.just(0), well=st.booleans()),
    move(Mute.command, number=numbers, what=st.sampled_from(["cancel", "requeue", "limit"])),
    move(Mute.ask, number=numbers, where=st.sampled_from([None, 0, 1, 8, 9, 9])),
    move(Mute.see, number=numbers, gone=st.booleans()),
    move(Mute.restart),
)


@lives(100)
@given(
    server=st.sampled_from(SERVERS),
    planners=st.sampled_from([None, WITH_SLOTS]),
    made=st.lists(moves, min_size=15, max_size=40),
)
@pytest.mark.nightly
def test_whatever_the_host_answers_every_action_and_every_reservation_ends(
    server: tuple[Device, ...],
    planners: Sequence[Planner] | None,
    made: list[Callable[[Mute], None]],
) -> None:
    world = Mute(server, planners)
    for make in made:
        make(world)
        world.check()
        assert not world.scheduler.errors(world.now)
    world.end_in_silence()
