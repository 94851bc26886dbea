"""A live trace: what is submitted, when, what is cancelled, and what is measured."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from radrm.config import Config
from radrm.core.records import DECLARED
from radrm.core.words import Collocation, Quantity
from radrm.errors import BadFile, Refused, Unreachable, UsageError
from radrm.host.storage.spool import Envelope
from radrm.lab.experiments.live.play import Play, Server, daemon_settings
from radrm.lab.experiments.live.record import Readings, measured, run_of
from radrm.lab.experiments.live.submissions import (
    STAND_IN,
    Commands,
    as_declared,
    declared,
    for_stand_ins,
    stand_in,
    submissions,
)
from radrm.lab.experiments.simulations.variants import Choices, make_variant
from radrm.lab.simulator.engine import tasks_of
from radrm.lab.simulator.scenario import Known, Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import parse
from radrm.structs import replace

GPUS = "sim:2xA100-40GB"
SIZES = (40960, 40960)
JOB = TraceJob(
    *(0.0, "vgg 16", 2, 600.0, 20000.4, 0.5),
    estimates={"guess": 15000.0, "high": 50000.0},
    batch_size=64,
    family="vgg",
    line=2,
)


def scenario(estimator: str = "oracle", known: Known = Known()) -> Scenario:  # noqa: B008
    return for_stand_ins([], Scenario(parse(GPUS), estimator=estimator, known=known))[1]


def options(job: TraceJob, given: Scenario) -> dict[str, Any]:
    (task,) = tasks_of(*as_declared([job], given, SIZES))
    assert all(e.source == DECLARED for e in task.estimates if e.quantity is Quantity.MEMORY)
    return dict(declared(task))


# ------------------------------------------------------------------ submissions


def test_an_elastic_job_is_played_at_its_smallest_size() -> None:
    grows = replace(JOB, gpus_max=4, cpus=2.0, cpus_max=8.0)
    assert options(grows, scenario()) == options(replace(JOB, cpus=2.0), scenario())
    servers = replace(JOB, gpus=0, cpus=2.0, cpus_max=8.0)
    with pytest.raises(UsageError, match="line 2 is a job with parameter servers"):
        as_declared([servers], scenario(), SIZES)


def test_a_job_declares_what_the_simulator_knows() -> None:
    assert options(JOB, scenario())["gpu-memory"] == "20001"
    assert options(JOB, scenario("guess"))["gpu-memory"] == "15000"
    assert options(JOB, scenario("high"))["gpu-memory"] == "40960"  # more than a device: all of it
    none = options(JOB, scenario("none"))
    assert none == {"name": "vgg 16", "gpus": "2", "batch-size": "64"}
    known = options(JOB, scenario("none", Known(memory=0.0, smact=0.0, duration=0.0)))
    assert (known["gpu-memory"], known["smact"], known["duration"]) == ("20001", "0.5000", "600")
    off = options(JOB, scenario("none", Known(memory=0.1)))
    (task,) = tasks_of([JOB], scenario("none", Known(memory=0.1)))
    assert int(off["gpu-memory"]) == ceil(task.estimates[0].upper) != 20001
    for gpus, most in ((1, "40960"), (2, "20480")):
        (task,) = tasks_of(
            *as_declared([replace(JOB, gpus=gpus)], scenario("high"), (20480, 40960))
        )
        assert declared(task)["gpu-memory"] == most
    large = replace(JOB, memory_mib=60000.0)  # 40000 and more is no mark of a failure here
    (task,) = tasks_of(*as_declared([large], scenario(), (81920, 81920)))
    assert declared(task)["gpu-memory"] == "60000"


def test_a_stand_in_lives_as_its_job_does_in_the_simulator() -> None:
    jobs, given = for_stand_ins([replace(JOB, steady_mib=9000.0)], scenario())
    (task,) = tasks_of(jobs, given)
    words = stand_in(task)
    said = dict(zip(words[1::2], words[2::2], strict=True))
    assert words[0] == "radrm-simjob"
    assert (said["--start-up"], said["--ramp"]) == ("30.000", "15.000")
    assert float(said["--start-up"]) + float(said["--seconds"]) == JOB.duration_s
    assert (said["--gpu-memory"], said["--gpus"], said["--batch-size"]) == ("20001", "2", "64")
    assert task.course.steady_mib == task.course.peak_mib and STAND_IN.work_sd == 0


def made(job: TraceJob, commands: Commands) -> Envelope:
    (envelope,) = submissions([job], scenario("none"), commands, {"PATH": "/bin"}, "/work")
    return envelope


def test_a_template_is_filled_in_word_by_word() -> None:
    template = "python train.py --model '{name}' --json '{\"a\": 1}' -b {batch_size}"
    job = TraceJob(0.0, "x; rm -rf ~ $(id) 'y'", 1, 60.0, 1000.0, 0.5, batch_size=8)
    command = made(job, Commands(template=template)).command
    assert command == ("python", "train.py", "--model", job.name, "--json", '{"a": 1}', "-b", "8")
    with pytest.raises(UsageError, match=r"there is no \{color\}; there are: \{name\}, "):
        made(JOB, Commands(template="run {color}"))
    with pytest.raises(BadFile, match=r"--command .*No closing quotation"):
        made(JOB, Commands(template="run 'x"))
    with pytest.raises(UsageError, match="--command is empty"):
        made(JOB, Commands(template=" "))


def test_a_command_of_the_trace_itself() -> None:
    own = TraceJob(0.0, "a", 1, 60.0, 1000.0, 0.5, command="python 'a b.py' && x", line=7)
    assert made(own, Commands()).command == ("python", "a b.py", "&&", "x")  # no shell
    with pytest.raises(UsageError, match=r"line 2: 'vgg 16' has no command; .* --jobs-dir"):
        made(JOB, Commands())


def test_a_job_file_of_each_name(tmp_path: Path) -> None:
    (tmp_path / "net.rad").write_text("#!/bin/sh\n#RAD --gpus=1 --name=mine\nexec true\n")
    (tmp_path / "many.rad").write_text("#!/bin/sh\n#RAD --array=0-3\nexec true\n")
    commands = Commands(folder=str(tmp_path))
    job = TraceJob(0.0, "../x/net", 2, 60.0, 1000.0, 0.5, priority=3)
    (envelope,) = submissions([job], scenario(), commands, {})
    assert envelope.script is not None and envelope.file == str(tmp_path / "net.rad")
    assert envelope.options == {"priority": "3", "gpu-memory": "1000"}  # what the file leaves open
    with pytest.raises(BadFile, match=r"cannot read the job file .*/vgg 16.rad"):
        made(JOB, commands)
    with pytest.raises(BadFile, match="it is an array, and a line of a trace is one job"):
        made(TraceJob(0.0, "many", 1, 60.0, 1000.0, 0.5), commands)


@pytest.mark.parametrize("name", ["a/b", "..", "\x1b[0m" * 60, "x" * 190, "ResNet-18 (batch 16)"])
def test_any_name_of_a_trace_becomes_a_name_of_a_job(name: str) -> None:
    job = TraceJob(0.0, name, 1, 60.0, 1000.0, 0.5)
    assert made(job, Commands(stand_ins=True)).options["name"]


def test_the_private_daemon_has_the_settings_of_the_scenario() -> None:
    choices = Choices(
        GPUS, recovery="own-device", collocation="timeslice",
        settings=("policy.max_smact=0.5", "core.settle_s=60"),
    )  # fmt: skip
    found = daemon_settings(make_variant(Config(), "lug", "none", choices).scenario)
    assert {
        *('policy="lug"', 'recovery="own-device"', "policies.sharing.max_smact=0.5"),
        *("core.settle_s=60", 'estimator="declared"'),
    } <= set(found)
    assert "mps.enabled=true" not in found
    shared = make_variant(Config(), "magm", "none", Choices(GPUS, collocation="mps")).scenario
    assert "mps.enabled=true" in daemon_settings(shared)
    alone = make_variant(Config(), "magm", "none", Choices(GPUS, collocation="exclusive")).scenario
    assert alone.config.collocation is Collocation.EXCLUSIVE
    assert 'collocation="exclusive"' in daemon_settings(alone)


# ------------------------------------------------------------------ playing


class Daemon:
    """A daemon of made-up jobs: each runs for its duration from its submission on."""

    def __init__(self, jobs: Sequence[TraceJob], refused: Sequence[int] = ()) -> None:
        self.jobs, self.refused = jobs, refused
        self.now = 5000.0
        self.tickets: list[str] = []
        self.spooled: dict[str, float] = {}
        self.put_at: list[float] = []
        self.cancelled: list[str] = []
        self.down = 0

    # The spool, the clock and the pause of `Play`.

    def put(self, envelopes: list[Envelope]) -> None:
        for each in envelopes:
            self.spooled[each.ticket] = self.now
            self.put_at.append(self.now - 5000.0)

    def pause(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds * 10 + 1e-6

    def clock(self) -> float:
        return self.now / 10

    def ask(self, op: str, **words: Any) -> Any:
        if self.down:
            self.down -= 1
            raise Unreachable("away")
        return getattr(self, op)(**words)

    def ping(self) -> Any:
        return {"now": self.now}

    def gpus(self) -> Any:
        return [{"uuid": "G", "index": 0, "name": "A", "total_mib": 1000} | self.reading()]

    def reading(self) -> dict[str, Any]:
        return {"used_mib": 500, "smact": 0.5, "power_w": 100.0}

    def intake(self, jobs: list[str]) -> Any:
        return [None if self.tickets.index(t) in self.refused else {"ticket": t} for t in jobs]

    def status(self, jobs: list[str]) -> Any:
        return [self.explain([ticket])["job"] for ticket in jobs]

    def cancel(self, jobs: list[str]) -> Any:
        self.cancelled += jobs
        return [{"error": None if t in self.spooled else "no such job"} for t in jobs]

    def explain(self, jobs: list[str]) -> Any:
        at = self.tickets.index(jobs[0])
        if at in self.refused:
            raise Refused("there is no such job")
        begun_s = self.spooled[jobs[0]]
        end_s = begun_s + self.jobs[at].duration_s
        over = end_s <= self.now
        return {
            "now": self.now,
            "job": {
                "ticket": jobs[0],
                "state": "COMPLETED" if over else "RUNNING",
                "submitted_at": begun_s,
                "ended_at": end_s if over else None,
                "oom_count": 0,
                "reason": None,
            },
            "attempts": [
                {
                    "launched_at": begun_s,
                    "ended_at": end_s if over else None,
                    "devices": [0],
                    "outcome": "completed" if over else None,
                    "collocation": "mps",
                    "reserved_mib": 100,
                }
            ],
        }


def play_of(daemon: Daemon) -> Play:
    given = submissions(daemon.jobs, scenario(), Commands(stand_ins=True), {})
    daemon.tickets = [each.ticket for each in given]
    server = Server(daemon.ask, daemon, {}, GPUS, 10.0)
    return Play(server, daemon.jobs, given, daemon.pause, daemon.clock)


def trace_of(*times_s: float, duration_s: float = 60.0) -> list[TraceJob]:
    return [TraceJob(at, f"j{at:g}", 1, duration_s, 1000.0, 0.5) for at in times_s]


def silent(done: int, jobs: int) -> None:
    """Show nothing."""


def test_every_job_is_submitted_at_its_time() -> None:
    daemon = Daemon(trace_of(0, 0, 7.5, 100, 3600))
    seen: list[tuple[int, int]] = []
    play = play_of(daemon)
    run = play.run(float("inf"), lambda done, jobs: seen.append((done, jobs)))
    assert daemon.put_at == pytest.approx([0, 0, 7.5, 100, 3600], abs=0.01)
    assert [job.ended_s for job in run.jobs] == pytest.approx([60, 60, 67.5, 160, 3660], abs=0.05)
    assert seen[0] == (0, 5) and seen[-1] == (5, 5) and play.unended == 0
    found = measured(run, play.readings)
    assert found.makespan_s == pytest.approx(3660, abs=0.05) and found.unfinished == 0
    assert found.mean_exec_s == pytest.approx(60) and found.mean_wait_s == pytest.approx(0)
    assert found.energy_j == pytest.approx(366_000, rel=1e-3)
    assert (found.gpu_smact_mean, found.gpu_memory_mean) == pytest.approx((0.5, 0.5))


def test_a_restart_of_the_daemon_is_waited_for() -> None:
    daemon = Daemon(trace_of(0, 30))
    daemon.down = 20
    assert all(job.ended_s for job in play_of(daemon).run(float("inf"), silent).jobs)
    daemon = Daemon(trace_of(0))
    daemon.down = 10**9
    with pytest.raises(Unreachable):
        play_of(daemon).run(float("inf"), silent)


def test_a_job_that_is_never_taken_in_does_not_hold_up_the_run() -> None:
    daemon = Daemon(trace_of(0, 10), refused=[0])
    run = play_of(daemon).run(float("inf"), silent)
    assert run.jobs[0].ended_s is None and run.jobs[0].reason == "the daemon did not take it in"
    assert run.jobs[1].ended_s is not None


def test_a_run_ends_at_its_limit() -> None:
    daemon = Daemon(trace_of(0, 10, duration_s=1e6))
    play = play_of(daemon)
    run = play.run(500.0, silent)
    assert [job.ended_s for job in run.jobs] == [None, None] and 500 < run.ended_s < 600
    assert measured(run, play.readings).unfinished == 2


def test_an_interruption_cancels_what_was_submitted_and_has_not_ended() -> None:
    daemon = Daemon(trace_of(0, 0, 90, 1e6))
    play = play_of(daemon)

    def interrupt(done: int, jobs: int) -> None:
        if daemon.now > 5100:
            raise SystemExit(130)

    with pytest.raises(SystemExit):
        play.run(float("inf"), interrupt)
    assert play.unended == 1 and play.cancel() == 1
    assert daemon.cancelled == [daemon.tickets[2]]


def test_an_interrupted_submission_is_cancelled_too() -> None:
    daemon = Daemon(trace_of(0, 0))
    play = play_of(daemon)
    put = daemon.put

    def half(envelopes: list[Envelope]) -> None:
        put(envelopes[:1])
        raise KeyboardInterrupt

    daemon.put = half
    with pytest.raises(KeyboardInterrupt):
        play.run(float("inf"), silent)
    assert play.cancel() == 1 and daemon.cancelled == daemon.tickets


# ------------------------------------------------------------------ the record


def test_what_was_not_measured_is_unknown() -> None:
    readings = Readings()
    readings.add(10, [{"uuid": "G", "name": "A", "total_mib": 100} | each for each in [
        {"used_mib": 50, "smact": None, "power_w": None}]])  # fmt: skip
    readings.add(20, [{"uuid": "G", "used_mib": None}])
    run = run_of([], [], readings, {})
    found = measured(run, readings)
    assert found.energy_j is None and found.gpu_smact_mean is None
    assert [step.memory_mib for step in run.devices[0].steps] == [50]


def test_a_reading_before_the_first_submission_holds_at_the_begin() -> None:
    readings = Readings()
    for at, mib in ((90, 1), (95, 2), (95.5, 2), (130, 3)):
        device = {"uuid": "G", "name": "A", "total_mib": 10, "smact": 0.1, "power_w": 1.0}
        readings.add(at, [device | {"used_mib": mib}])
    (device_run,) = readings.runs(100.0)
    assert [(s.at_s, s.memory_mib) for s in device_run.steps] == [(0, 2), (30, 3)]
    readings.add(140, [device | {"used_mib": mib}])  # the same again needs no memory
    assert readings.runs(100.0) == (device_run,)


def test_a_failed_job_has_a_reason_and_counts_in_no_mean() -> None:
    explained = {
        "now": 100.0,
        "job": {"state": "FAILED", "submitted_at": 10.0, "ended_at": 60.0, "oom_count": 2,
                "reason": "out of memory"},
        "attempts": [{"launched_at": 20.0, "ended_at": 60.0, "devices": [1, "GONE"],
                      "outcome": "oom", "collocation": "mps", "reserved_mib": None}],
    }  # fmt: skip
    run = run_of(trace_of(3), [explained], Readings(), {1: "G"})
    assert (run.jobs[0].reason, run.jobs[0].ended_s, run.oom_count) == ("out of memory", None, 2)
    assert run.ended_s == 50 and run.jobs[0].attempts[0].started_s == 10
