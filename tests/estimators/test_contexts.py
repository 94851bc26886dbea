"""What the CUDA context takes here: assumed, learned as a difference, or measured."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import Estimate, JobSpec
from radrm.core.words import Quantity
from radrm.estimators.auto import Auto
from radrm.estimators.interface import Description, PastRun
from radrm.estimators.learning.contexts import LARGEST_MIB, SMALLEST_MIB, correction, loading
from radrm.estimators.memory import CUDNN_MIB, LAZY_CONTEXT_MIB, LAZY_KERNELS_MIB
from radrm.estimators.summary import Summary
from radrm.estimators.trace import Trace
from radrm.estimators.traces import Traced
from tests.estimators.strategies import errors_seen

A100 = "NVIDIA A100-SXM4-40GB"
ASSUMED = 1700.0
DRIVER, CUDA = "550.54", "12.1"


@dataclass(frozen=True)
class Says:
    mib: float
    name: str = "trace"
    cuda: str | None = CUDA

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        told = Estimate(Quantity.MEMORY, self.mib, self.mib, self.name)
        return (
            Estimate(
                told.quantity, told.value, told.upper, told.source,
                context_mib=ASSUMED, cuda=self.cuda,
            ),
        )  # fmt: skip


def job(**told: object) -> Description:
    spec = JobSpec(name="a", user="ann", uid=1000)
    changed = {"device_kind": A100, "driver": DRIVER, **told}
    return Description(spec=spec, **changed)


def runs(
    *said: float, off: float = -1200.0, driver: str | None = DRIVER, cuda: str | None = CUDA,
    source: str = "trace",
) -> tuple[PastRun, ...]:  # fmt: skip
    return tuple(
        PastRun(round(mib + off), A100, told={source: mib}, driver=driver, cuda=cuda)
        for mib in said
    )


def value(mib: float, recent: tuple[PastRun, ...], **told: object) -> float:
    with errors_seen(trace=(1.0,), summary=(1.0,)):
        (found,) = Auto((Says(mib),)).estimate(job(recent_runs=recent, **told))
    assert found.raw == mib, "what is learned from stays its own figure"
    assert found.upper >= found.value
    return found.value


def test_three_runs_tell_the_context_for_jobs_of_any_size() -> None:
    three = runs(3000, 5000, 9000)
    for mib in (2000, 6000, 60000):
        assert value(mib, three) == mib - 1200
        assert value(mib, three[:2]) > mib - 900, "two do not"


def test_the_difference_of_one_thing_run_again_and_again_counts_once() -> None:
    many = runs(*[9000.0] * 20, off=3000) + runs(3000, 5000)
    assert value(100_000, many) == pytest.approx(100_000 - 1200, abs=1)


def test_other_software_teaches_nothing_about_this_ones_context() -> None:
    for other in ({"driver": "470"}, {"cuda": "11.8"}, {"cuda": None}, {"driver": None}):
        assert value(6000, runs(3000, 5000, 9000, **other)) == 6000
        both = runs(3000, 5000, 9000, **other) + runs(3000, 5000, 9000, off=-200)
        assert value(6000, both) == 5800


def test_what_was_measured_beats_what_was_learned() -> None:
    three = runs(3000, 5000, 9000)
    assert value(6000, (), contexts={CUDA: 524.0}) == 6000 - ASSUMED + 524
    assert value(6000, three, contexts={CUDA: 500.0}) == 4800, "and the runs agree with it"
    assert value(6000, (), contexts={"11.8": 524.0}) == 6000, "another build's is another's"
    for absurd in (0.0, SMALLEST_MIB - 1, LARGEST_MIB + 1):
        assert value(6000, (), contexts={CUDA: absurd}) == 6000


def test_runs_still_correct_what_was_measured() -> None:
    """A probe loads few kernels: what real jobs take beyond it is learned as before."""
    bare = 6000 - ASSUMED + 524
    for count in (2, 3):
        recent = runs(*[5900.0, 6000.0, 6100.0][:count], off=524 - ASSUMED + 100)
        assert bare + 30 < value(6000, recent, contexts={CUDA: 524.0}) < bare + 60


def test_runs_of_software_that_is_hardly_known_are_left_out() -> None:
    others = runs(6000, 6100, off=-3000, driver="470")
    assert value(6000, others) == 6000
    assert value(6000, others, contexts={CUDA: 524.0}) == 6000 - ASSUMED + 524


def test_where_the_programs_cuda_is_not_known_the_largest_measured_counts() -> None:
    for cuda in (None, "none"):
        (found,) = Auto((Says(6000, cuda=cuda),)).estimate(
            job(contexts={"11.8": 1000.0, "12.4": 500.0, "13": 1.0})
        )
        assert found.value == 6000 - ASSUMED + 1000


@pytest.mark.parametrize(
    ("driver", "cuda", "asked", "lazy"),
    [
        ("550.54", "12.4", None, True), ("535.104.05", "12.2", None, True),
        ("550.54", "12.1", None, False), ("550.54", "11.8", None, False),
        ("550.54", "12.1", "lazy", True), ("550.54", "12.4", "EAGER", False),
        ("550.54", "12.4", "DEFAULT", True), ("550.54", "11.3", "LAZY", False),
        ("510.47", "12.4", "LAZY", False), ("525.60", "12.4", None, False),
        ("550.54", None, None, True), ("525.60", None, None, False), (None, None, None, True),
        (None, "12.1", None, False), ("simulated", "13", None, True), ("x", "y.z", "w", True),
    ],
)  # fmt: skip
def test_versions_and_environment_tell_how_kernels_are_loaded(
    driver: str | None, cuda: str | None, asked: str | None, lazy: bool
) -> None:
    found = loading(driver, cuda, asked)
    assert found.lazy == lazy
    assert len(found.why.splitlines()) == 1


def test_a_lazy_context_is_assumed_before_the_first_run() -> None:
    """The figure itself counts an eager one, with cuDNN's kernels on top."""
    traced = Traced(1000, 1000, 5, 1, 1, 1, 1, cuda="12.4").to_text()
    (found,) = Auto((Trace(),)).estimate(job(trace=traced))
    assert found.value == 1000 + LAZY_CONTEXT_MIB + LAZY_KERNELS_MIB
    assert found.guesses[-1].startswith("CUDA context: 524 MiB, assumed: CUDA 12.4 loads")
    (measured,) = Auto((Trace(),)).estimate(job(trace=traced, contexts={"12.4": 450.0}))
    assert measured.value == 1000 + 450 + LAZY_KERNELS_MIB
    (eager,) = Auto((Trace(),)).estimate(job(trace=traced, contexts={"12.4": 1400.0}))
    assert eager.value == 1000 + 1400 + CUDNN_MIB
    (asked,) = Auto((Trace(),)).estimate(job(trace=traced, module_loading="EAGER"))
    assert asked.value == asked.raw


def test_the_guess_says_where_the_context_comes_from() -> None:
    for contexts, recent, word in (
        ({}, (), "1700 MiB, assumed: CUDA 12.1 can load all kernels at once"),
        ({CUDA: 524.0}, (), "524 MiB, measured on this machine"),
        ({}, runs(3000, 5000, 9000), "500 MiB, learned from 3 runs on this machine"),
    ):
        (found,) = Auto((Says(6000),)).estimate(job(contexts=contexts, recent_runs=recent))
        assert found.guesses[-1].startswith("CUDA context: ") and word in found.guesses[-1]


def test_estimators_that_count_no_context_are_left_alone() -> None:
    horus = Estimate(Quantity.MEMORY, 5000, 5000, "horus")
    recent = runs(3000, 5000, 9000, source="horus")
    found = correction(horus, job(recent_runs=recent, contexts={CUDA: 524.0}), recent)
    assert (found.shift_mib, found.why, len(found.runs)) == (0.0, None, 3)


@given(
    st.lists(st.tuples(st.floats(1, 1e6), st.integers(1, 10**6)), max_size=20),
    st.floats(1, 1e6),
    st.sampled_from([{}, {CUDA: 524.0}]),
)
def test_a_figure_stays_sound_whatever_the_runs_say(
    pairs: list[tuple[float, int]], said: float, contexts: dict[str, float]
) -> None:
    recent = tuple(
        PastRun(peak, A100, told={"trace": mib}, driver=DRIVER, cuda=CUDA) for mib, peak in pairs
    )
    (found,) = Auto((Says(said),)).estimate(job(recent_runs=recent, contexts=contexts))
    assert 0 < found.value <= found.upper < float("inf")


@pytest.mark.parametrize(("workspace", "context"), [(0.0, 1716.0), (5.0, 1716.0 - 277.0)])
def test_trace_and_summary_tell_how_much_context_they_count(
    workspace: float, context: float
) -> None:
    """Of a step with convolutions cuDNN's kernels stay beside what a bare context takes."""
    traced = Traced(100, 100, workspace, 1, 1, 1, 1, cuda=CUDA).to_text()
    (told,) = Trace().estimate(job(trace=traced))
    assert (told.context_mib, told.cuda) == (context, CUDA)
    table = (
        "Layer (type)  Output Shape  Param #\n====\n"
        "Linear-1  [-1, 1024]  1024\n====\nTotal params: 1,024\n"
    )
    (told,) = Summary().estimate(job(summary=table, batch_size=8))
    assert (told.context_mib, told.cuda) == (1429.0, None)
