"""A queue above several servers counts their GPU memory, as Slurm's does."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.config import Config, SlurmConfig
from radrm.errors import UsageError
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.servers import MARGIN_MIB, Dealer, simulate_dealt, simulate_many
from radrm.lab.simulator.traces.job import TraceJob
from radrm.structs import replace
from tests.examples import some
from tests.lab.simulator.traces import PLAIN, drawn, job, scenario

FOR_EVER = Config(slurm=SlurmConfig(local_wait_s=1e9))
GIB = 1024


def setting_of(config: Config = FOR_EVER, **changes: object) -> Scenario:
    found = scenario(life=PLAIN, **changes)
    return replace(found, config=dataclasses.replace(found.config, slurm=config.slurm))


def dealt(jobs: Sequence[TraceJob], setting: Scenario, servers: int) -> list[int | None]:
    """The server of each job's first attempt."""
    size = len(setting.devices)
    run = simulate_dealt(jobs, setting, servers)
    return [found.attempts[0].devices[0] // size if found.attempts else None for found in run.jobs]


@settings(max_examples=some(25), deadline=None)
@given(seed=st.integers(0, 10_000), servers=st.integers(1, 4), wait_s=st.sampled_from([60.0, 1e9]))
def test_no_server_is_ever_promised_more_than_it_has(
    seed: int, servers: int, wait_s: float
) -> None:
    jobs, setting = drawn(seed, 25), setting_of(Config(slurm=SlurmConfig(local_wait_s=wait_s)))
    dealer = Dealer(sorted(jobs, key=lambda each: each.submit_s), setting, servers)
    deal, total = dealer._deal, sum(each.device.total_mib for each in setting.devices)

    def checked() -> None:
        deal()
        for server, free in enumerate(dealer._free):
            assert 0 <= free == total - sum(dealer._asked[at] for at in dealer.on(server))

    dealer._deal = checked
    runs = dealer.run()
    assert dealer.complete
    for found in runs:
        assert (found.ended_s is None) == (found.reason is not None)
        completed = [a for a in found.attempts if a.outcome.value == "completed"]
        assert len(completed) == (found.ended_s is not None)


def test_the_same_arguments_give_the_same_run() -> None:
    jobs, setting = drawn(7, 30), setting_of()
    assert simulate_dealt(jobs, setting, 3) == simulate_dealt(jobs, setting, 3)


def test_one_server_with_room_for_all_runs_as_without_a_queue() -> None:
    jobs = [job(submit_s=10.0 * at, memory_mib=3 * GIB) for at in range(6)]
    setting = setting_of()
    alone, queued = simulate(jobs, setting), simulate_dealt(jobs, setting, 1)
    assert [each.attempts for each in queued.jobs] == [each.attempts for each in alone.jobs]


def test_servers_are_filled_in_their_order() -> None:
    need = 10 * GIB
    fits = 80 * GIB // (need + MARGIN_MIB)
    jobs = [job(memory_mib=need, duration_s=1e5) for _ in range(2 * fits)]
    assert dealt(jobs, setting_of(), 3) == [0] * fits + [1] * fits


def test_the_head_of_the_queue_is_not_passed() -> None:
    large, small = 38 * GIB, 4 * GIB
    jobs = [
        job(submit_s=0, memory_mib=large, gpus=2, duration_s=1000.0),
        job(submit_s=1, memory_mib=large, gpus=2, duration_s=1000.0),
        job(submit_s=2, memory_mib=small, duration_s=10.0),
    ]
    run = simulate_dealt(jobs, setting_of(), 1)
    starts = [found.attempts[0].started_s for found in run.jobs]
    assert starts == sorted(starts) and starts[2] >= 1000


def test_a_job_that_asks_for_too_much_is_refused_with_both_numbers() -> None:
    run = simulate_dealt([job(memory_mib=39 * GIB, gpus=3)], setting_of(), 2)
    assert run.jobs[0].reason == "it asks for 120.0G of GPU memory, a server has 80.0G"


def test_who_waits_too_long_goes_to_another_server_and_fails_at_last() -> None:
    config = Config(slurm=SlurmConfig(local_wait_s=100.0))
    busy = [job(memory_mib=4 * GIB, gpus=2, smact=0.95, duration_s=1e4) for _ in range(2)]
    setting = replace(setting_of(config), mps=False)
    exclusive = replace(setting, config=dataclasses.replace(setting.config, policy="exclusive"))
    first = simulate_dealt([*busy, job(submit_s=5.0, memory_mib=4 * GIB)], exclusive, 1)
    assert first.jobs[2].reason == "it waited 1m40s on each of 4 servers"
    other = dealt([busy[0], job(submit_s=5.0, memory_mib=4 * GIB)], exclusive, 2)
    assert other == [0, 1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"fidelity": "published"}, "fidelity radrm only"), ({"cpus": 8.0}, "has no CPUs")],
)
def test_what_it_does_not_model_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        simulate_many([job()], replace(setting_of(), **changes), 2, "gpumem")


def test_an_unknown_dealer_is_named() -> None:
    with pytest.raises(UsageError, match="--dealer=fair: choose hash or gpumem"):
        simulate_many([job()], setting_of(), 2, "fair")
