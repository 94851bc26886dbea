"""The daemon's own estimator in the simulator: columns, corrected as the run goes on."""

from __future__ import annotations

import dataclasses

import pytest

from radrm.config import Config, MpsConfig
from radrm.core.words import Outcome
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import Known, Scenario, as_configured
from radrm.simulated.spec import parse
from radrm.structs import replace
from tests.lab.simulator.traces import PLAIN, job, scenario


@pytest.fixture(autouse=True)
def no_errors_seen_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ships would have to be known here to tell what is reserved."""
    monkeypatch.setattr("radrm.estimators.learning.learned.ERRORS_SEEN", {})


def reserved(run: Run) -> list[int]:
    return [found.attempts[0].reserved_mib for found in run.jobs]


def exactly(**changes: object) -> Scenario:
    return scenario(estimator="auto", core={"stretch": 1.0}, **changes)


def test_the_best_route_that_tells_is_believed() -> None:
    jobs = [
        job(0, 330, 6000, estimates={"horus": 9000, "gpumemnet": 8000}),
        job(0, 330, 6000, estimates={"horus": 9000}),
        job(0, 330, 3000, estimates={"faketensor": 4000}),
    ]
    run = simulate(jobs, exactly(policy="first-fit"))
    assert reserved(run)[:2] == [8000, 9000]
    assert reserved(run)[2] == 5120, "the chain has no such route: the policy's floor"


def test_without_a_column_all_is_known_from_runs_of_the_same_user_and_name() -> None:
    jobs = [
        job(0, 330, 9000, name="a", user="ann"),
        job(500, 330, 9000, name="a", user="ann"),
        job(1000, 330, 9000, name="a", user="bob"),
        job(1500, 330, 9000, name="b", user="ann"),
    ]
    run = simulate(jobs, as_configured(parse("sim:2xA100-40GB"), life=PLAIN))
    unknown, known, of_another, other = reserved(run)
    assert unknown == of_another == other, (
        "the need of a new program is unknown: floor_mib is reserved"
    )
    assert known != unknown and known >= 9000


def test_the_setting_that_ships_declares_nothing_and_has_no_mps() -> None:
    shipped = as_configured(parse("sim:1xA100-40GB"))
    assert (shipped.mps, shipped.estimator, shipped.known) == (False, "auto", Known())
    sharing = dataclasses.replace(Config(), mps=MpsConfig(enabled=True))
    assert as_configured(parse("sim:1xA100-40GB"), sharing).mps


def test_it_learns_from_the_runs_that_have_ended() -> None:
    """An estimator that always says half of the need. All runs are of one size."""
    jobs = [
        job(500.0 * at, 330, 10000, name=f"job{at}", estimates={"horus": 5000}) for at in range(12)
    ]
    run = simulate(jobs, exactly())
    first, *later = reserved(run)
    assert first == 5000
    assert run.jobs[0].attempts[0].outcome is Outcome.OOM
    assert later[0] > 5000, "its second attempt has shown what it needs"
    assert later == sorted(later), "with each run it is believed less"
    assert later[-1] >= 10000
    assert len(run.jobs[-1].attempts) == 1


def test_runs_on_other_kinds_of_gpus_teach_nothing() -> None:
    jobs = [
        job(500.0 * at, 330, 9000, gpus=2, name=f"job{at}", estimates={"horus": 12000})
        for at in range(4)
    ]
    alike = reserved(simulate(jobs, exactly(spec="sim:2xA100-40GB")))
    mixed = reserved(simulate(jobs, exactly(spec="sim:1xA100-40GB,1xH100-80GB")))
    assert alike[-1] < 12000
    assert mixed == [12000] * 4, "a run over both kinds is of neither"


def test_waiting_jobs_learn_from_runs_of_their_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short job came later: it goes first once a run of its name has shown how short it is."""
    figures = {"horus": 30000}
    jobs = [
        job(0, 100, 9000, name="short", estimates=figures),
        job(1, 1000, 9000, name="long", estimates=figures),
        job(2, 1000, 9000, name="long", estimates=figures),
        job(3, 100, 9000, name="short", estimates=figures),
    ]
    setting = exactly(spec="sim:1xA100-40GB", policy="exclusive")
    setting = replace(setting, config=dataclasses.replace(setting.config, order="shortest"))
    found = simulate(jobs, setting).jobs
    assert found[3].attempts[0].started_s < found[2].attempts[0].started_s
    monkeypatch.setattr("radrm.lab.simulator.scheduling.WAITING", 0)
    found = simulate(jobs, setting).jobs
    assert found[3].attempts[0].started_s > found[2].attempts[0].started_s


def test_the_quantile_is_configured_as_the_daemons() -> None:
    jobs = [
        job(500.0 * at, 330, 4000 + 400 * at, name=f"job{at}", estimates={"horus": 6000})
        for at in range(10)
    ]
    setting = exactly()
    bold = dataclasses.replace(setting.config, estimators={"auto": {"quantile": 0.1}})
    cautious = reserved(simulate(jobs, setting))
    assert reserved(simulate(jobs, replace(setting, config=bold)))[-1] < cautious[-1]
