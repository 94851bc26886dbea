"""Who held which device: each moment of a device is divided among those who held it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.daemon.answers.past import gather
from radrm.daemon.answers.past.gather import Figures, Held
from radrm.daemon.serving.turns import finish

stays = st.lists(
    st.tuples(st.sampled_from("ABC"), st.integers(0, 50), st.integers(0, 20)), max_size=30
)


@given(stays, st.sampled_from([1, 2, 7, 100]))
def test_all_parts_together_are_the_time_in_which_somebody_was_there(
    made: list[tuple[str, int, int]], block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gather, "_BLOCK", block)
        held, sums, heard = Held(10.0, 60.0), [Figures() for _ in made], dict.fromkeys("ABC", 0.0)
        for (device, begin_s, lasting_s), to in zip(made, sums, strict=True):
            held.add((device,), float(begin_s), float(begin_s + lasting_s), to)

        def note(device: str, at_s: float, seconds: float) -> None:
            heard[device] += seconds

        finish(held.divide(lambda at_s: at_s // 7 * 7 + 7, note))
    moments = {
        d: {t for n, b, s in made if n == d for t in range(b, b + s) if 10 <= t < 60} for d in "ABC"
    }
    assert heard == pytest.approx({device: len(there) for device, there in moments.items()})
    for (device, begin_s, lasting_s), found in zip(made, sums, strict=True):
        mine = [t for t in range(begin_s, begin_s + lasting_s) if 10 <= t < 60]
        beside = [sum(n == device and b <= t < b + s for n, b, s in made) for t in mine]
        assert found.gpu_s == pytest.approx(sum(1 / count for count in beside))
