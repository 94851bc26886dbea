"""`radrm trace run`: options that cannot be meant, tables, the document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from radrm.config import Config
from radrm.errors import RadrmError, UsageError
from radrm.lab.experiments.live.record import Readings, measured
from radrm.lab.experiments.live.trace import (
    MOST_JOBS,
    Played,
    below,
    check_length,
    note_on_clock,
    played_document,
)
from radrm.lab.experiments.simulations.runs import Result
from radrm.lab.experiments.simulations.variants import Choices, make_variant
from radrm.lab.show.replay import gains_table, played_table, unfinished_live
from radrm.lab.simulator.bounds import Bounds
from radrm.lab.simulator.run import JobRun, Run
from radrm.lab.simulator.traces.job import TraceJob
from radrm.structs import replace
from tests.cli.runner import invoke

GPUS = "sim:2xA100-40GB"
JOB = TraceJob(0.0, "vgg 16", 2, 600.0, 20000.4, 0.5)
LIMITS = Bounds(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no radrm daemon answers"),
        (("--collocation=mps",), "are of a private daemon: add --gpus=sim:4xA100-40GB"),
        (("--gpus=sim:1xA100-40GB", "--command=true"), "--gpus runs stand-ins; leave out"),
        (("--gpus=sim:1xA100-40GB", "--set=life.ramp_s=1"), "of the simulator's model"),
        (("--gpus=sim:1xA100-40GB", "--set=policy.x=1"), "'x' is no setting of packing"),
        (("--estimator=auto",), "choose none"),
        (("--estimator=guess", "--gpus=sim:1xA100-40GB"), "the trace has no estimates of 'guess'"),
    ],
)
def test_options_that_cannot_be_meant(
    words: Sequence[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADRM_HOME", str(tmp_path / "home"))
    path = tmp_path / "t.csv"
    path.write_text("submit_s,name,gpus,duration_s,memory_mib,smact\n0,one,1,900,9000,0.3\n")
    found = invoke("trace", "run", str(path), *words)
    assert isinstance(found.exception, RadrmError) and said in str(found.exception)
    assert "\n" not in str(found.exception) and found.stdout == ""


def test_a_clock_of_no_speed() -> None:
    words = ["trace", "run", "x.csv", "--gpus=sim:1xA100-40GB", "--time-scale=nan"]
    found = invoke(*words)
    assert found.exit_code == 2 and "nan is not a finite number" in found.stderr


def test_a_clock_that_is_too_fast_is_noted() -> None:
    jobs = [replace(JOB, duration_s=300.0), replace(JOB, duration_s=900.0)]
    assert note_on_clock(jobs, 60.0) is None
    assert note_on_clock(jobs, 120.0).startswith("starting a process takes 60 s of this clock, 10%")


def test_a_live_run_has_a_bounded_number_of_jobs() -> None:
    check_length([JOB] * MOST_JOBS)
    with pytest.raises(UsageError, match=r"has 10,001 jobs, and a live run takes 10,000"):
        check_length([JOB] * (MOST_JOBS + 1))


def played(policy: str, live_s: float, simulated_s: float) -> Played:
    variant = make_variant(Config(), policy, "oracle", Choices(GPUS))
    jobs = [JobRun(JOB, (), live_s), JobRun(JOB, (), None, "out of memory")]
    run = Run(tuple(jobs), (), live_s, 1)
    live = replace(measured(run, Readings()), makespan_s=live_s, energy_j=None)
    simulated = Result(variant, (replace(live, makespan_s=simulated_s, energy_j=5e6),), LIMITS)
    return Played(live, run, simulated)


def test_live_and_simulated_figures_stand_side_by_side() -> None:
    both = [played("exclusive", 4000, 3600), played("magm", 3000, 2700)]
    rows = {line[:20].strip(): line[20:].split() for line in played_table(both[0]).plain_lines()}
    assert rows["EXCLUSIVE"] == ["LIVE", "SIMULATED", "DIFFERENCE"]
    assert rows["trace total time"] == ["1h06m", "1h00m", "+11.1%"]
    assert rows["energy of the GPUs"] == ["-", "5.0", "MJ"]
    gains = [line.split() for line in gains_table(both).plain_lines()]
    assert ["trace", "total", "time", "-25.0%", "-25.0%"] in gains
    line = unfinished_live(both[0])
    assert "exclusive: 1 of 2 jobs did not complete" in line
    assert "vgg 16: out of memory" in line
    whole = replace(both[0].run, jobs=both[0].run.jobs[:1])
    assert unfinished_live(replace(both[0], run=whole)) is None


def test_the_document_has_both_and_the_gains() -> None:
    found = played_document([played("exclusive", 4000, 3600), played("magm", 3000, 2700)], 60.0, 3)
    assert json.loads(json.dumps(found)) == found
    first, second = found["runs"]
    assert (first["live"]["makespan_s"], first["simulated"]["makespan_s"]) == (4000, 3600)
    assert (second["policy"], second["simulated"]["left_out"]) == ("magm", 3)
    (gain,) = found["gains"]
    assert gain["live"]["makespan_s"] == gain["simulated"]["makespan_s"] == 0.25
    assert gain["live"]["energy_j"] is None


def test_how_far_a_value_is_below() -> None:
    assert below(75.0, 100.0) == 0.25
    assert below(None, 1.0) is None and below(1.0, 0.0) is None and below(1.0, None) is None
