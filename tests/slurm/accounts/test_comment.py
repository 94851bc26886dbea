"""What the step writes into the comment of its job, and what is read there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.slurm.comment import Use, added_min, returned, started, use_of, waiting, why_waiting


@given(reason=st.text(max_size=300), times=st.integers(0, 99), minutes=st.integers(0, 9999))
def test_a_waiting_job_says_why_and_how_often_it_was_returned(
    reason: str, times: int, minutes: int
) -> None:
    comment = waiting(reason, times, minutes)
    assert (returned(comment), added_min(comment)) == (times, minutes)
    assert added_min(started(minutes)) == minutes and why_waiting(started(minutes)) is None
    assert use_of(comment) is None
    assert "\n" not in comment and len(comment) < 250


def test_the_reason_comes_back() -> None:
    assert why_waiting(waiting("GPU 0: 12.0G free, needs 20.0G", 1)) == (
        "GPU 0: 12.0G free, needs 20.0G"
    )


NUMBER = st.none() | st.floats(0, 1e9).map(lambda x: round(x, 3))


@given(gpu_s=NUMBER, smact=NUMBER, peak=st.none() | st.integers(0, 1 << 20), energy=NUMBER)
def test_what_was_used_comes_back(
    gpu_s: float | None, smact: float | None, peak: int | None, energy: float | None
) -> None:
    use = Use(gpu_s, smact, peak, energy)
    assert use_of(use.text()) == (use if use != Use() else None)
    assert why_waiting(use.text()) is None and returned(use.text()) == 0


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "my note",
        "radrm:",
        "radrm:gpu_s=nan",
        "radrm:gpu_s=-1",
        "radrm:x=1",
        "gpu_s=1",
    ],
)
def test_other_comments_say_nothing(comment: str) -> None:
    assert use_of(comment) is None and why_waiting(comment) is None and returned(comment) == 0


def test_a_forged_comment_is_bounded() -> None:
    assert use_of("radrm:gpu_s=1e99,peak_mib=3.7") == Use(peak_mib=3)
    assert returned("radrm: waits: x (returned 9999 of 3 times)") == 0
