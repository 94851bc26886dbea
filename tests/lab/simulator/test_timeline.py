"""Virtual time: the order of what happens, what is void, and the loop over several timelines."""

from __future__ import annotations

from radrm.lab.simulator.loop import Running, Timeline, in_order


def played(*lines: Timeline, until_s: float = float("inf")) -> list[tuple[int, object, float]]:
    return [(number, what, lines[number].now_s) for number, what in in_order(lines, until_s)]


def line(*times: float) -> Timeline:
    found = Timeline()
    for when_s in times:
        found.at(when_s, f"at {when_s}")
    return found


def test_what_is_planned_happens_by_time_and_then_in_the_order_of_planning() -> None:
    time = line(3.0, 1.0)
    time.at(3.0, "later planned")
    assert played(time) == [(0, "at 1.0", 1.0), (0, "at 3.0", 3.0), (0, "later planned", 3.0)]
    assert time.next_s is None


def test_several_timelines_go_on_in_turn_and_the_first_wins_a_tie() -> None:
    one, other = line(2.0, 4.0), line(1.0, 2.0, 3.0)
    order = [(number, what) for number, what, _ in played(one, other, until_s=3.0)]
    assert order == [(1, "at 1.0"), (0, "at 2.0"), (1, "at 2.0"), (1, "at 3.0")]
    assert (one.now_s, other.now_s, one.next_s) == (2.0, 3.0, 4.0)


def test_what_is_planned_while_the_loop_runs_is_played_too_and_never_in_the_past() -> None:
    one, other = line(1.0, 5.0), line(4.0)
    seen = []
    for number, what in in_order([one, other]):
        seen.append((number, what, (one, other)[number].now_s))
        if what == "at 4.0":
            other.at(2.0, "too late")
    assert seen[2:] == [(1, "too late", 4.0), (0, "at 5.0", 5.0)]


def test_a_new_rate_moves_the_end_and_no_time_passes_for_the_old_one() -> None:
    time, attempt = Timeline(), Running(0)
    attempt.work.go_at(1.0, 0.0)
    time.plan_end(attempt, 10.0, "ends")
    attempt.work.go_at(4.0, 2.0)
    time.plan_end(attempt, 10.0, "ends")
    assert played(time) == [(0, "ends", 4.0)]
    attempt.work.go_at(0.0, 4.0)
    time.plan_end(attempt, 20.0, "never")
    assert time.next_s is None and time.now_s == 4.0


def test_nothing_happens_to_an_attempt_that_is_over() -> None:
    time, attempt = Timeline(), Running(0)
    attempt.work.go_at(1.0, 0.0)
    time.at(1.0, "report", attempt)
    time.plan_end(attempt, 2.0, "ends")
    time.at(3.0, "other")
    attempt.over = True
    assert played(time) == [(0, "other", 3.0)]
