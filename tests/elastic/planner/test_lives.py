"""Whatever comes and goes, elastic jobs keep their promises to others."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core.records import Job
from radrm.core.words import JobState
from radrm.elastic.elasticity.notes import Scaling
from tests.elastic.planner.trainings import Trainings
from tests.examples import some
from tests.world import GIB

GPUS = 4
SCALINGS = st.builds(
    Scaling, st.sampled_from((0.0, 0.3)), st.sampled_from((1.0, 5.0)), st.sampled_from((0.0, 0.2))
)
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("elastic"), SCALINGS, st.integers(1, GPUS)),
        st.tuples(st.just("fixed"), st.integers(1, GPUS), st.none()),
        st.tuples(st.just("end"), st.integers(0, 5), st.none()),
        st.tuples(st.just("run"), st.sampled_from((1, 30, 100)), st.none()),
    ),
    max_size=12,
)


@given(MOVES)
@settings(max_examples=some(40), deadline=None)
def test_no_growth_keeps_a_job_waiting_that_could_start_without_it(
    moves: list[tuple[Any, ...]],
) -> None:
    here = Trainings(GPUS)
    jobs: list[Job] = []
    elastic: set[int] = set()
    for what, first, second in moves:
        if what == "elastic":
            jobs.append(here.submit(first, second))
            elastic.add(jobs[-1].id)
        elif what == "fixed":
            jobs.append(here.world.submit(30 * GIB, gpus=first, smact=0.9))
        elif what == "run":
            here.run(first)
        else:
            live = [job for job in jobs if here.world.live(job) is not None]
            if live:
                here.world.end(live[first % len(live)])
        here.world.read()
        live = [job for job in jobs if here.world.live(job) is not None]
        taken = [uuid for job in live for uuid in here.world.where(job)]
        assert len(taken) == len(set(taken)), "a GPU has one job"
        head = here.world.scheduler.view.head()
        if head is not None:
            grown = sum(here.size(job) - 1 for job in live if job.id in elastic)
            assert GPUS - len(taken) + grown < head.spec.gpus, "growth keeps nobody waiting"
        for job in live:
            assert here.world.jobs[job.id].state is JobState.RUNNING
        assert not here.world.scheduler.errors(here.world.now)
