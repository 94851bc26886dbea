"""The largest batch that fits, found by few traces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.client import fitting
from radrm.client.fitting import MOST_TRACES, largest_batch
from radrm.host.estimation.tracing import TraceRequest
from radrm.jobfile.radfile import Program

ROOMS = st.sampled_from([11e3, 40e3, 80e3])


@given(st.integers(2, 5000), st.floats(100, 30_000), st.floats(0.5, 500), ROOMS)
def test_on_a_line_the_answer_fits_and_no_larger_one_does(
    size: int, fixed: float, each: float, room: float
) -> None:
    tried: list[int] = []

    def memory(batch: int) -> float:
        tried.append(batch)
        return fixed + each * batch

    if memory(size) <= room:
        return
    tried.clear()
    found = largest_batch(size, fixed + each * size, room, memory)
    assert len(tried) <= MOST_TRACES and all(0 < each < size for each in tried)
    exact = int((room - fixed) / each)
    if found is None:
        assert exact < 8, "only a batch near 1 is missed"
        return
    assert found[1] == fixed + each * found[0] <= room
    assert found[1] >= 0.97 * room or found[0] >= min(exact, exact // 8 * 8 or exact) - 8


def test_a_batch_that_cannot_be_traced_ends_the_search() -> None:
    assert largest_batch(512, 80e3, 40e3, lambda _: None) is None


def with_size(size: int, *words: str, script: str | None = None) -> Program | None:
    request = TraceRequest(cwd="/", environment={}, program=Program(words or None, script))
    found = fitting._with_size(request, size)
    return None if found is None else found.program


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        (("python", "a.py", "--batch-size", "64"), ("python", "a.py", "--batch-size", "32")),
        (("python", "a.py", "--bs=64", "--lr=64"), ("python", "a.py", "--bs=32", "--lr=64")),
        (("a.py", "--train_batch_size", "64", "-v"), ("a.py", "--train_batch_size", "32", "-v")),
        (("python", "a.py", "--lr", "64"), None),
    ],
)
def test_the_words_with_another_batch(words: tuple[str, ...], changed: object) -> None:
    found = with_size(32, *words)
    assert (None if found is None else found.words) == changed


def test_a_script_with_another_batch() -> None:
    script = "#!/bin/bash\npython a.py --epochs 64 --batch-size 64 # 64\n"
    assert with_size(8, script=script).script == script.replace("--batch-size 64", "--batch-size 8")
