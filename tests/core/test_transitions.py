"""Only what the table says can happen to a job."""

from __future__ import annotations

from itertools import product

import pytest

from radrm.core.transitions import TABLE, ImpossibleTransition, Trigger, after
from radrm.core.words import JobState


def test_only_what_the_table_says_can_happen() -> None:
    for state, trigger in product(JobState, Trigger):
        if (state, trigger) in TABLE:
            assert after(state, trigger) is TABLE[state, trigger]
        else:
            with pytest.raises(ImpossibleTransition):
                after(state, trigger)


def test_every_state_is_reached_and_only_a_requeue_leaves_an_end() -> None:
    assert {JobState.PENDING, *TABLE.values()} == set(JobState)
    left = {state for state, trigger in TABLE if trigger is not Trigger.REQUEUE}
    assert {s for s in JobState if s.final} == set(JobState) - left
    assert {s for s, trigger in TABLE if trigger is Trigger.REQUEUE} == set(JobState) - left
