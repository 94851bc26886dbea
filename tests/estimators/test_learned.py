"""What past runs say of an estimator, of a job, and what the best of several answers is."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core.records import Estimate, Instant, Job, JobSpec
from radrm.core.words import Quantity
from radrm.estimators.auto import Auto
from radrm.estimators.declared import Declared
from radrm.estimators.families import Family
from radrm.estimators.history import History
from radrm.estimators.interface import Description, PastRun
from radrm.estimators.learning.learned import (
    ERRORS_BY_FAMILY,
    ERRORS_SEEN,
    PRIOR_SHIFTS,
    Learned,
    learned,
    learned_for,
    prior_of,
)
from radrm.structs import replace
from tests.estimators.strategies import errors_seen
from tests.examples import some

SPEC = JobSpec(name="a", user="ann", uid=1000)
A100 = "NVIDIA A100-SXM4-40GB"
H100 = "NVIDIA H100"


def job(**told: object) -> Description:
    return Description(spec=SPEC, **told)


def runs(*pairs: tuple[float, int], source: str = "theirs", kind: str = A100) -> list[PastRun]:
    """Past runs of which `source` said the first figure, and that needed the second."""
    return [PastRun(peak, kind, told={source: said}) for said, peak in pairs]


@dataclass(frozen=True)
class Says:
    name: str
    mib: float | None = None
    breaks: bool = False

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        if self.breaks:
            raise RuntimeError("out of ideas")
        return () if self.mib is None else (memory(self.mib, self.name),)


def memory(mib: float, source: str) -> Estimate:
    return Estimate(Quantity.MEMORY, mib, mib, source)


# ------------------------------------------------------------------ learned


def test_without_runs_an_estimator_is_believed_as_far_as_its_shipped_errors_say() -> None:
    with errors_seen(theirs=(0.8, 0.9, 1.0, 1.1, 1.5)):
        known = learned("theirs", [], A100)
        assert (known.runs, known.value(1000), known.upper(1000, 0.7)) == (0, 1000, 1100)
        assert known.upper(1000, 1.0) == 1500
        assert known.upper(1000, 0.2) == 1000, "never below the value itself"
    assert learned("nobody knows it", [], A100).upper(1000, 0.95) == 1000


def test_a_bias_is_learned_and_a_single_run_does_not_move_it_all_the_way() -> None:
    off_by_300 = runs(*[(1000.0 * n, 1000 * n + 300) for n in range(1, 31)] * 4)
    assert learned("theirs", off_by_300, A100).value(5000) == pytest.approx(5300, rel=0.01)
    one = learned("theirs", off_by_300[:1], A100)
    assert one.shift_mib(1000) == pytest.approx(300 / (1 + PRIOR_SHIFTS))


def test_an_estimator_that_errs_otherwise_with_small_jobs_is_corrected_by_their_like() -> None:
    """As one that tells buckets of 8000 MiB: nearly all small jobs need a quarter of theirs."""
    buckets = runs(*[(8000.0, 2000)] * 60, *[(16000.0, 14000)] * 6)
    known = learned("theirs", buckets, A100)
    assert known.value(8000) == pytest.approx(2300, abs=200)
    assert known.upper(16000, 0.95) >= 14000, "the many small ones do not drag it down"
    assert known.value(300000) == pytest.approx(300000), "nothing is known of its like"


def test_the_spread_of_this_machine_takes_the_place_of_the_shipped_one() -> None:
    with errors_seen(theirs=(1.0, 2.0)):
        exact = runs(*[(1000.0, 1000)] * 200)
        assert learned("theirs", [], A100).upper(1000, 0.9) == 2000
        assert learned("theirs", exact, A100).upper(1000, 0.9) == 1000
        assert learned("theirs", exact, A100).upper(1000, 1.0) == 2000


def test_other_estimators_and_other_gpus_teach_nothing_about_this_one() -> None:
    others = runs((1000, 9000), source="other") + runs((1000, 9000), kind=H100)
    assert learned("theirs", others, A100).runs == 0
    assert learned("theirs", others, None).runs == 1, "of several kinds each is one"


@given(
    st.lists(st.tuples(st.floats(1, 1e5), st.integers(1, 10**5)), max_size=30),
    st.floats(1, 1e5),
)
def test_runs_of_any_size_never_make_nonsense_of_a_bound(
    pairs: list[tuple[float, int]], said: float
) -> None:
    """No ratio to next to nothing, where what was learned takes away what is said."""
    known = learned("theirs", runs(*pairs), A100)
    worst = max((peak / told for told, peak in pairs), default=1.0)
    assert known.upper(said, 0.95) <= 8 * max(1.0, worst) * max(said, known.value(said))


@given(
    st.lists(st.tuples(st.floats(1, 1e6), st.integers(1, 10**6)), max_size=30),
    st.floats(1, 1e6),
    st.floats(0.01, 1),
)
def test_more_confidence_never_means_less_memory(
    pairs: list[tuple[float, int]], said: float, quantile: float
) -> None:
    known = learned("theirs", runs(*pairs), A100)
    value, upper = known.value(said), known.upper(said, quantile)
    assert 0 <= value <= upper <= known.upper(said, 1.0)


@settings(max_examples=some(25))
@given(
    st.floats(100, 1e5),
    st.lists(st.tuples(st.floats(1, 1.2), st.floats(0.5, 2)), min_size=100, max_size=200),
)
def test_the_upper_bound_holds_for_as_many_of_the_runs_of_one_size_as_it_says(
    size: float, pairs: list[tuple[float, float]]
) -> None:
    told = [(size * part, ratio) for part, ratio in pairs]
    past = runs(*[(said, round(said * ratio) or 1) for said, ratio in told])
    with errors_seen(theirs=(1.0,)):
        known = learned("theirs", past, A100)
    held = sum(run.peak_mib <= known.upper(run.told["theirs"], 0.9) + 1e-6 for run in past)
    assert held >= 0.85 * len(past), "0.9 of the runs and the prior together"


# ------------------------------------------------------------------ families


def family_runs(family: str | None, *pairs: tuple[float, int]) -> tuple[PastRun, ...]:
    return tuple(replace(run, family=family) for run in runs(*pairs))


def of_family(family: str | None, past: tuple[PastRun, ...], mib: float = 1000.0) -> Learned:
    told = replace(memory(mib, "theirs"), family=family)
    return learned_for(told, job(recent_runs=past, device_kind=A100))[0]


EXACT = family_runs(Family.TRANSFORMER, *[(1000.0, 1000)] * 30)
WILD = family_runs(Family.BENCHMARK, *[(1000.0, 1000 + 50 * n) for n in range(30)])


def test_a_family_is_bounded_by_its_own_runs_and_falls_back_to_all() -> None:
    with errors_seen(theirs=(1.0,)):
        alone = of_family(Family.TRANSFORMER, EXACT).upper(1000, 0.95)
        beside = of_family(Family.TRANSFORMER, EXACT + WILD).upper(1000, 0.95)
        assert alone == beside == 1000, "thirty of its own: the wild ones count for nothing"
        assert of_family(Family.BENCHMARK, EXACT + WILD).upper(1000, 0.95) > 2000
        everyone = of_family(None, EXACT + WILD).upper(1000, 0.95)
        assert of_family(Family.MLP, EXACT + WILD).upper(1000, 0.95) == everyone > 1500
        assert of_family(Family.MLP, WILD).upper(1000, 0.95) > 2000, "none of its own: all"
        assert of_family(Family.MLP, family_runs(None, *[(1000.0, 3000)] * 30)).value(1000) > 2500


@pytest.mark.parametrize(
    ("own", "least", "most"), [(0, 1800, 2500), (3, 1100, 2200), (30, 1000, 1000)]
)
def test_the_more_runs_of_a_family_the_less_the_others_count(
    own: int, least: float, most: float
) -> None:
    with errors_seen(theirs=(1.0,)):
        known = of_family(Family.TRANSFORMER, EXACT[:own] + WILD)
        assert least <= known.upper(1000, 0.95) <= most


@given(
    st.lists(
        st.tuples(st.floats(1, 1e6), st.integers(1, 10**6), st.sampled_from([None, *Family])),
        max_size=30,
    ),
    st.sampled_from([None, *Family]),
    st.floats(1, 1e6),
    st.floats(0.01, 1),
)
def test_a_familys_bound_is_no_less_than_the_value_and_grows_with_the_quantile(
    told: list[tuple[float, int, str | None]], family: str | None, said: float, quantile: float
) -> None:
    past = tuple(run for mib, peak, its in told for run in family_runs(its, (mib, peak)))
    with errors_seen(theirs=(0.9, 1.0, 1.2)):
        known = of_family(family, past, said)
        value, upper = known.value(said), known.upper(said, quantile)
        assert 0 < value <= upper <= known.upper(said, 1.0) < float("inf")


def test_shipped_errors_are_those_of_the_family_else_of_all() -> None:
    assert prior_of("theirs") == prior_of("theirs", "MLP") == (1.0,)
    assert prior_of("trace", "no such family") == prior_of("trace") == ERRORS_SEEN["trace"]
    assert prior_of("script", Family.CNN.value) == prior_of("trace", Family.CNN.value)
    for source, families in ERRORS_BY_FAMILY.items():
        assert source in ERRORS_SEEN
        for family, ratios in families.items():
            assert family in {each.value for each in Family}
            assert list(ratios) == sorted(ratios) and ratios[0] > 0
            assert prior_of(source, family) == ratios


# ------------------------------------------------------------------ history


def test_history_takes_the_highest_peak_of_the_latest_runs() -> None:
    past = tuple(PastRun(mib, A100) for mib in (900, 1000, 950)) + (PastRun(9999, A100),) * 10
    (told,) = History().estimate(job(same_runs=past[:3], device_kind=A100))
    assert (told.value, told.upper, told.source) == (1000, 1050, "history"), "spread on top"
    assert told.guesses == ("runs: 3 of the same job",)
    (old,) = History().estimate(job(same_runs=past[3:] + past[:3], device_kind=A100))
    assert old.value == 9999
    assert History().estimate(job()) == ()


def test_history_believes_runs_on_the_same_kind_of_gpu_first() -> None:
    past = (PastRun(5000, H100), PastRun(4000, A100))
    assert History().estimate(job(same_runs=past, device_kind=A100))[0].value == 4000
    assert History().estimate(job(same_runs=past))[0].value == 5000
    (other,) = History().estimate(job(same_runs=past[:1], device_kind=A100))
    assert other.value == 5000
    assert other.guesses[1] == f"kind of GPU: figures from {H100}, no run on {A100} yet"


def test_history_believes_runs_of_the_same_size_first() -> None:
    four = PastRun(3000, A100, gpus=4, alone=True, duration_s=100.0)
    one = PastRun(9000, A100, gpus=1, alone=True, duration_s=390.0)
    found = History().estimate(job(same_runs=(four, four, one), device_kind=A100))
    assert [each.value for each in found] == [9000, 390.0]
    only = History().estimate(job(same_runs=(four,), device_kind=A100))
    assert only[0].value == 3000, "better than nothing"


def test_activity_and_duration_come_first_from_runs_that_were_alone() -> None:
    shared = PastRun(1000, A100, smact=0.9, smact_most=1.0, alone=False, duration_s=900)
    alone = PastRun(1000, A100, smact=0.4, alone=True, duration_s=600)
    found = History().estimate(job(same_runs=(shared, alone)))
    told = {e.quantity: e.value for e in found}
    assert told == {Quantity.MEMORY: 1000, Quantity.SMACT: 0.4, Quantity.DURATION: 600}
    _, smact, duration = History().estimate(job(same_runs=(shared,)))
    assert (smact.value, smact.upper, smact.source) == (0.9, 1.0, "history, shared runs")
    assert (duration.value, duration.source) == (900, "history, shared runs")
    first_minutes = replace(shared, smact=0.4, smact_alone=True)
    (_, smact, _) = History().estimate(job(same_runs=(shared, first_minutes)))
    assert (smact.value, smact.upper, smact.source) == (0.4, 0.4, "history")


def test_runs_of_the_same_name_predict_activity_and_duration_but_no_memory() -> None:
    named = PastRun(1000, A100, smact=0.5, alone=True, duration_s=600)
    found = History().estimate(job(named_runs=(named,)))
    assert [(e.quantity, e.value, e.source) for e in found] == [
        (Quantity.SMACT, 0.5, "history, same name"),
        (Quantity.DURATION, 600, "history, same name"),
    ]
    same = replace(named, smact=None, duration_s=300)
    found = History().estimate(job(same_runs=(same,), named_runs=(named,)))
    assert [(e.value, e.source) for e in found[1:]] == [
        (0.5, "history, same name"),
        (300, "history"),
    ]


def test_a_duration_counts_for_the_same_length_and_is_longer_than_what_was_stopped() -> None:
    whole = PastRun(1000, A100, alone=True, duration_s=600, length="10 epochs")
    stopped = PastRun(1000, A100, alone=True, least_s=900, length="10 epochs")
    runs = (whole, stopped)
    assert len(History().estimate(job(same_runs=runs, length="90 epochs"))) == 1
    _, duration = History().estimate(job(same_runs=runs, length="10 epochs"))
    assert (duration.value, duration.upper) == (600, 900)
    assert len(History().estimate(job(same_runs=(stopped,), length="10 epochs"))) == 1


# ------------------------------------------------------------------ auto


def test_the_first_that_answers_is_believed_and_the_others_follow() -> None:
    routes = (Says("silent"), Says("first", 1000), Says("second", 2000))
    told = Auto(routes).estimate(job())
    assert [(e.source, e.value, e.raw) for e in told] == [
        ("first", 1000, 1000),
        ("second", 2000, 2000),
    ]


def test_an_estimator_that_breaks_is_told_and_counts_as_silent() -> None:
    told: list[str] = []
    auto = Auto(
        (Says("broken", breaks=True), Says("next", 10)),
        complain=lambda name, error: told.append(f"{name}: {error}"),
    )
    assert [e.source for e in auto.estimate(job())] == ["next"]
    assert told == ["broken: out of ideas"]


def test_what_is_reserved_is_the_larger_of_bound_and_value_with_spread() -> None:
    """What is off by 400 MiB now and then is off by as much for a smaller job."""
    now_and_then = runs(*[(1000.0, 1000 + 400 * (n % 4 == 0)) for n in range(40)])
    with errors_seen(theirs=(1.0,)):
        known = learned("theirs", now_and_then, A100)
        assert known.value(600) == 600
        assert known.upper(600, 0.95) == pytest.approx(1000), "the difference, not the ratio"
        assert known.upper(1500, 0.95) == pytest.approx(2100), "the ratio, not the difference"


@pytest.mark.parametrize(("value", "upper", "least"), [(1000, 1500, 1500), (1000, 900, 1000)])
def test_an_estimators_own_margin_is_kept_on_top_of_what_is_learned(
    value: float, upper: float, least: float
) -> None:
    @dataclass(frozen=True)
    class Own:
        name: str = "own"

        def estimate(self, job: Description) -> tuple[Estimate, ...]:
            return (Estimate(Quantity.MEMORY, value, upper, self.name),)

    (told,) = Auto((Own(),)).estimate(job())
    assert told.upper >= least
    past = tuple(runs(*[(1000.0, 2000)] * 60, source="own"))
    (told,) = Auto((Own(),)).estimate(job(recent_runs=past, device_kind=A100))
    assert told.upper - told.value >= max(upper - value, 0)
    waits = Job(1, "t", SPEC, Instant(0, 0), estimates=(Estimate(Quantity.MEMORY, 9, 5, "x"),))
    assert waits.need_mib == 9, "never less than the value is reserved"


def test_only_the_believed_figure_brings_its_guesses_along() -> None:
    @dataclass(frozen=True)
    class Guesser:
        name: str

        def estimate(self, job: Description) -> tuple[Estimate, ...]:
            return (replace(memory(10, self.name), guesses=(f"{self.name}: so it is",)),)

    told = Auto((Says("silent"), Guesser("first"), Guesser("second"))).estimate(job())
    assert [e.guesses for e in told] == [("first: so it is",), ()]


def test_what_is_declared_stays_as_it_is() -> None:
    past = tuple(runs((1000, 5000), source="declared"))
    auto = Auto((Declared(),))
    (told,) = auto.estimate(job(declared_mib=1000, recent_runs=past))
    assert (told.value, told.upper, told.raw) == (1000, 1000, None)


def test_what_has_been_learned_here_moves_the_value_and_the_bound() -> None:
    past = tuple(runs(*[(1000, 1500)] * 60, source="first"))
    (told,) = Auto((Says("first", 1000),)).estimate(job(recent_runs=past, device_kind=A100))
    assert told.raw == 1000 and told.value == pytest.approx(1476, abs=2)
    assert told.upper >= 1500


@pytest.mark.parametrize("quantile", [-0.1, 1.5])
def test_a_quantile_is_a_share(quantile: float) -> None:
    with pytest.raises(ValueError, match="quantile"):
        Auto(quantile=quantile)
