"""Whose trace is next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from radrm.host.estimation.service import Lines


def test_one_of_each_user_and_users_take_turns() -> None:
    lines: Lines[str] = Lines(2)
    for user, what in (("1", "a"), ("1", "b"), ("1", "c"), ("2", "x"), ("3", "y")):
        lines.add(user, what)
    assert lines.take() == [("1", "a"), ("2", "x")] and lines.take() == []
    lines.free("1")
    assert lines.take() == [("3", "y")], "user 1 has had a turn"
    lines.free("2")
    assert lines.take() == [("1", "b")]
    lines.free("3")
    assert lines.take() == [], "one at a time"
    lines.free("1")
    assert lines.take() == [("1", "c")]


@given(st.lists(st.sampled_from(["a", "b", "c", "d", None]), max_size=40), st.integers(1, 3))
def test_all_come_once_in_the_order_of_their_user(steps: list[str | None], at_once: int) -> None:
    lines: Lines[int] = Lines(at_once)
    running: list[tuple[str, int]] = []
    came: list[tuple[str, int]] = []

    def take() -> None:
        found = lines.take()
        running.extend(found)
        came.extend(found)
        users = [user for user, _ in running]
        assert len(users) == len(set(users)) <= at_once

    added = []
    for number, step in enumerate(steps):
        if step is not None:
            lines.add(step, number)
            added.append((step, number))
        elif running:
            lines.free(running.pop(0)[0])
        take()
    while running:
        lines.free(running.pop(0)[0])
        take()
    assert sorted(came) == sorted(added)
    for user in {user for user, _ in came}:
        mine = [number for its, number in came if its == user]
        assert mine == sorted(mine)
