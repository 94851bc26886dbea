"""`radrm bench collocate`: its parts by tables, and once as a whole on software GPUs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from radrm.cli.commands.bench import table
from radrm.errors import Refused, UsageError
from radrm.experiments.collocate import place as bench_place
from radrm.experiments.collocate.numbers import (
    CopyRun,
    Results,
    Round,
    coarse,
    parse_copies,
    parse_modes,
    verdict,
)
from radrm.experiments.collocate.pcie import Link, Traffic
from radrm.experiments.collocate.place import Job, Manager, choose, instances, note_on
from radrm.experiments.collocate.rounds import _Watch, last_lines
from radrm.experiments.collocate.server import config_in_force
from radrm.experiments.collocate.steps import Point, Steps, compiled, rate
from radrm.host.storage.paths import client_paths
from tests.cli.fakes import ESC, gpu
from tests.daemon.harness import DaemonHome, wait_until
from tests.standins.nvml_library import Nvml

ROOT = Path(__file__).parents[2]

# ------------------------------------------------------------------ steps


def read(pattern: str, *pieces: tuple[float, str]) -> list[tuple[float, float]]:
    steps = Steps(compiled(pattern))
    for at_s, text in pieces:
        steps.feed(text.encode(), at_s)
    return [(point.at_s, point.step) for point in steps.points]


@pytest.mark.parametrize(
    ("pattern", "pieces", "points"),
    [
        ("it", [(1, "it\nno\n"), (2, "it\n")], [(1, 1), (2, 2)]),
        (r"step (\d+)", [(1, "step 10 of 99\n"), (2, "step 20 of 99\n")], [(1, 10), (2, 20)]),
        (r"(\d+) of (?P<step>\d+)", [(1, "1 of 7\n")], [(1, 7)]),
        (r"step (\d+)", [(1, "st"), (2, "ep 5"), (3, "\n")], [(3, 5)]),
        (r"(\d+)it", [(1, "10it\r"), (2, "20it\r30it\r")], [(1, 10), (2, 20), (2, 30)]),
        (r"step (\d+)", [(1, "step 90\n"), (2, "step 10\n"), (3, "step 20\n")], None),
        (r"loss (\S+)", [(1, "loss nonsense\n"), (2, "loss 3\n")], [(2, 3)]),
        (r"a|b(\d)", [(1, "a\n"), (2, "b4\n")], [(2, 4)]),
    ],
)
def test_steps_are_read_from_lines(
    pattern: str, pieces: list[tuple[float, str]], points: list[tuple[float, float]] | None
) -> None:
    counter_begins_anew = [(1, 90), (2, 100), (3, 110)]
    assert read(pattern, *pieces) == (points or counter_begins_anew)


@given(st.lists(st.binary(max_size=60), max_size=12), st.integers(0, 3))
def test_no_bytes_break_the_reading(pieces: list[bytes], seed: int) -> None:
    steps = Steps(compiled((r"(\d+)", r".", r"(?P<step>\S+)", r"x(y)?")[seed]))
    for at_s, data in enumerate(pieces):
        steps.feed(data, float(at_s))
    numbers = [point.step for point in steps.points]
    assert numbers == sorted(numbers)


def test_a_pattern_that_is_none() -> None:
    with pytest.raises(UsageError, match="--step-pattern"):
        compiled("(")


def test_a_rate_is_of_what_falls_into_the_time() -> None:
    points = [Point(float(at), float(10 * at)) for at in range(10)]
    assert rate(points, 0, 100) == pytest.approx(10)
    assert rate([Point(0, 0), *points[5:]], 5, 9) == pytest.approx(10)
    assert rate(points, 3.5, 4.5) is None
    assert rate([], 0, 9) is None
    assert rate([Point(1, 5), Point(2, 5)], 0, 9) is None


# ------------------------------------------------------------------ numbers


def run(start: float, end: float, outcome: str = "completed", steps: float = 0) -> CopyRun:
    points = tuple(Point(start + s, steps * s) for s in range(int(end - start))) if steps else ()
    return CopyRun(started_s=start, ended_s=end, outcome=outcome, peak_mib=100, points=points)


def many(mode: str, *runs: CopyRun, **more: Any) -> Round:
    return Round(mode=mode, runs=runs, **more)


ALONE = many("timeslice", run(0, 100), energy_j=1000.0)


def test_throughput_is_against_one_after_another() -> None:
    pair = many("timeslice", run(0, 150), run(10, 160), energy_j=2400.0)
    results = Results([ALONE, pair])
    assert results.throughput(ALONE) == 1
    assert results.throughput(pair) == pytest.approx(2 * 100 / 160)
    assert results.slowdown(pair) == pytest.approx(1.6)
    assert pair.time_s == 150
    assert (pair.energy_per_copy_j, pair.power_w) == (1200, 15)


def test_steps_count_where_both_tell_them() -> None:
    alone = many("timeslice", run(0, 50, steps=2.0))
    pair = many("mps", run(0, 90, steps=1.5), run(40, 130, steps=1.5))
    results = Results([alone, pair])
    assert pair.steps_per_s == pytest.approx(3)
    assert pair.step_s == pytest.approx(1 / 1.5)
    assert results.throughput(pair) == pytest.approx(1.5)


def test_what_was_cut_short_has_no_time_of_its_own() -> None:
    cut = many("mps", run(0, 60, "cancelled", steps=1.0), cut=True, energy_j=600.0)
    assert cut.sound
    assert (cut.time_s, cut.makespan_s, cut.energy_per_copy_j) == (None, None, None)
    assert cut.energy_per_step_j == pytest.approx(10)
    assert not many("mps", run(0, 60, "cancelled")).sound


def test_a_round_with_a_death_is_compared_with_nothing() -> None:
    dead = many("timeslice", run(0, 100), run(0, 5, "oom"))
    results = Results([ALONE, dead])
    assert (dead.oom, dead.sound) == (1, False)
    assert results.throughput(dead) is None
    assert results.best() is None
    assert results.documents()[1]["outcomes"] == ["completed", "oom"]


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ([ALONE], "No verdict"),
        ([], "No verdict"),
        ([many("timeslice", run(0, 9), run(0, 9))], "No verdict"),
        ([ALONE, many("mps", run(0, 125), run(0, 125))], "2 copies by mps do 1.60 times"),
        ([ALONE, many("mps", run(0, 250), run(0, 250))], "Sharing does not pay"),
    ],
)
def test_the_verdict(rounds: list[Round], said: str) -> None:
    assert verdict(Results(rounds)).startswith(said)


def test_of_equal_gains_fewer_copies_win() -> None:
    pair = many("mps", run(0, 100), run(0, 100))
    four = many("mps", *(run(0, 200) for _ in range(4)))
    assert Results([ALONE, four, pair]).best() is pair


def test_the_table_shows_what_is_not_known_as_such() -> None:
    dead = many("mps", run(0, 5, "oom"), smact_source="nvml-utilization")
    console = Console(width=200, record=True, file=open(os.devnull, "w"))
    console.print(table(Results([ALONE, dead])))
    shown = console.export_text()
    assert "1.00x" in shown
    assert "1 of 1 out of GPU memory" in shown
    assert coarse([dead])
    assert not coarse([ALONE])


@pytest.mark.parametrize(
    ("text", "numbers"), [("1,2,4", [1, 2, 4]), ("4,2,2", [1, 2, 4]), ("1", [1])]
)
def test_copies_are_read(text: str, numbers: list[int]) -> None:
    assert parse_copies(text) == numbers


@pytest.mark.parametrize("text", ["", "0", "49", "two", "1,,2", "-1"])
def test_copies_that_cannot_be(text: str) -> None:
    with pytest.raises(ValueError, match=r"1,2,4|from 1 to 48"):
        parse_copies(text)


def test_modes_are_read() -> None:
    assert parse_modes("mps, timeslice,mps") == ["mps", "timeslice"]
    with pytest.raises(ValueError, match="timeslice, mps and mig"):
        parse_modes("streams")


# ------------------------------------------------------------------ PCIe traffic


def test_traffic_is_a_mean_of_what_was_sampled() -> None:
    traffic = Traffic()
    traffic.add(None)
    assert (traffic.received_mb_s, traffic.sent_mb_s) == (None, None)
    for sample in ((100.0, 10.0), None, (300.0, 30.0)):
        traffic.add(sample)
    assert (traffic.received_mb_s, traffic.sent_mb_s) == (200.0, 20.0)


def test_the_link_of_a_gpu(nvml: Nvml) -> None:
    uuid = nvml.gpu(pcie_rx_kb_s=3_000_000, pcie_tx_kb_s=70_000)
    link = Link(uuid)
    assert link.sample() == (3000.0, 70.0)
    nvml.set(uuid, pcie_rx_kb_s=None)
    assert link.sample() is None
    link.close()
    assert "nvmlShutdown" in nvml.calls()
    for none in (uuid, nvml.mig(uuid, "1g.5gb"), "GPU-unknown", ""):
        other = Link(none)
        assert other.sample() is None
        other.close()


# ------------------------------------------------------------------ which GPU


def device(index: int, **changed: Any) -> dict[str, Any]:
    plain = {"uuid": f"GPU-{index}abc", "unmanaged_mib": 0, "kind": "gpu", "state": "idle"}
    return gpu(index, **{**plain, "jobs": [], **changed})


def take(
    devices: Sequence[dict[str, Any]],
    wanted: str | None = None,
    around: Job | None = None,
    managed: Sequence[dict[str, Any]] = (),
) -> Any:
    others = [Manager("/run/radrm", {d["uuid"]: d for d in managed})] if managed else []
    command = ["radrm", "bench", "collocate", "--", "python", "a b.py"]
    return choose(devices, wanted, around, others, command)["index"]


def test_the_first_gpu_that_nobody_uses() -> None:
    busy, free = device(0, unmanaged_mib=9000), device(1)
    assert take([busy, free]) == 1
    assert take([busy, free], wanted="0") == 0
    assert take([busy, free], wanted="GPU-1a") == 1
    assert "8.8G of GPU 0" in str(note_on(busy))
    assert note_on(free) is None


@pytest.mark.parametrize(
    ("devices", "wanted", "managed", "said"),
    [
        ([], None, (), "no GPU here"),
        ([device(0)], "7", (), "indices are: 0"),
        ([device(0, unmanaged_mib=9000)], None, (), "--gpu 0"),
        ([device(0, state="unreadable", reason="lost")], "0", (), "unreadable: lost"),
        ([device(0)], None, [device(0)], "radrm submit --collocation=exclusive --wait -- radrm"),
        ([device(0)], "0", [device(0)], "radrm drain 0"),
        ([device(0)], None, [device(0, state="drained", jobs=[3])], "is given out by"),
    ],
)
def test_a_gpu_that_cannot_be_had(
    devices: list[dict[str, Any]], wanted: str | None, managed: Sequence[Any], said: str
) -> None:
    with pytest.raises(Refused, match=re.escape(said)):
        take(devices, wanted, managed=managed)


def test_what_a_daemon_gave_up_can_be_had() -> None:
    drained = device(0, state="drained")
    assert take([device(0), device(1)], managed=[drained, device(1)]) == 0


def test_inside_a_job_it_takes_that_jobs_gpu() -> None:
    devices = [device(0), device(1)]
    mine = Job("12", ("GPU-1abc",), alone=True)
    assert take(devices, around=mine, managed=devices) == 1
    assert take(devices, around=Job("12", ("1",), alone=True)) == 1
    with pytest.raises(Refused, match="--collocation=exclusive"):
        take(devices, around=Job("12", ("GPU-1abc",), alone=False))
    with pytest.raises(Refused, match="--gpus=1"):
        take(devices, around=Job("12", (), alone=True))
    with pytest.raises(Refused, match="indices are: 1"):
        take(devices, wanted="0", around=mine)


def part(index: int, number: int, profile: str, **changed: Any) -> dict[str, Any]:
    """A MIG instance."""
    mine = {"kind": "mig", "profile": profile, "parent": f"GPU-{index}", "uuid": f"MIG-{number}"}
    return device(index, **{**mine, **changed})


CUT = [part(1, 1, "3g.20gb"), part(1, 2, "2g.10gb"), part(1, 3, "2g.10gb")]


def test_of_a_gpu_that_is_cut_the_instances_that_there_are_most_of() -> None:
    def found(devices: list[dict[str, Any]], wanted: str | None = None) -> list[str]:
        chosen = choose(devices, wanted, None, [], ["radrm"])
        return [d["uuid"] for d in instances(devices, chosen)]

    assert found([*CUT, device(0)]) == ["GPU-0abc"], "whole GPUs first"
    assert found([device(0), *CUT], "1") == ["MIG-2", "MIG-3"]
    assert found([device(0), *CUT], "MIG-1") == ["MIG-1"]
    assert found(CUT) == ["MIG-2", "MIG-3"]
    busy = [part(0, 9, "2g.10gb", state="unreadable", reason="lost"), *CUT]
    assert found(busy) == ["MIG-2", "MIG-3"]
    with pytest.raises(Refused, match="unreadable: lost"):
        found(busy, "0")


def test_inside_a_job_on_an_instance_there_is_nothing_to_share() -> None:
    with pytest.raises(Refused, match="has a MIG instance, which takes one job"):
        take(CUT, around=Job("12", ("MIG-1",), alone=True))


@pytest.mark.daemon
def test_the_job_around_is_what_its_daemon_says(daemon: DaemonHome) -> None:
    paths = client_paths(daemon.environment, os.getuid())
    assert bench_place.job_around({}, paths) is None
    job = daemon.submit("--collocation=exclusive", "--", *_simjob(8, 0.3, 9000))
    document = daemon.wait_state(job, "RUNNING")
    found = bench_place.job_around({"RADRM_JOB_ID": str(job)}, paths)
    assert found == Job(str(job), tuple(document["devices"]), alone=True)
    (manager,) = bench_place.managers(paths)
    assert document["devices"][0] in manager.devices


def test_without_its_daemon_the_environment_tells(tmp_path: Path) -> None:
    paths = client_paths({"RADRM_HOME": str(tmp_path)}, os.getuid())
    environ = {"RADRM_JOB_ID": "3", "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}
    assert bench_place.job_around(environ, paths) == Job("3", ("GPU-a", "GPU-b"), alone=True)
    assert bench_place.managers(paths) == []


# ------------------------------------------------------------------ small things


def test_the_last_lines_of_a_log_are_harmless(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"one\ntwo\n\n{ESC}three\nfour\n")
    said = last_lines(log)
    assert said.endswith("four")
    assert "\x1b" not in said
    assert last_lines(tmp_path / "none") == ""


def test_the_configuration_is_the_callers(tmp_path: Path) -> None:
    file = tmp_path / "radrm" / "radrm.toml"
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert config_in_force(environ) != file
    file.parent.mkdir()
    file.touch()
    assert config_in_force(environ) == file


# ------------------------------------------------------------------ a round as it is watched


def test_a_round_is_timed_from_where_all_copies_are_at_work() -> None:
    watch = _Watch(2, (), None)
    watch.documents = [{"state": "RUNNING", "started_at": 10.0} for _ in range(2)]
    watch._steps = [Steps(compiled(r"step (\d+)")) for _ in range(2)]
    assert watch.at_work_for(60.0) < 0  # both still start up
    watch._steps[0].feed(b"step 1\n", 40.0)
    assert watch.at_work_for(60.0) < 0
    watch._steps[1].feed(b"step 1\n", 50.0)
    assert watch.at_work_for(60.0) == 10.0
    watch.documents[1]["state"] = "QUEUED"
    assert watch.at_work_for(60.0) < 0


def test_copies_that_never_report_are_not_waited_for_without_end() -> None:
    watch = _Watch(1, (), None)
    watch.documents = [{"state": "RUNNING", "started_at": 10.0}]
    watch._steps = [Steps(compiled("no such line"))]
    assert watch.at_work_for(10.0 + 300.0) == 0.0


# ------------------------------------------------------------------ the whole command


def _simjob(gigabytes: int, smact: float, seconds: int) -> list[str]:
    words = ["radrm-simjob", "--gpu-memory", f"{gigabytes}G", "--smact", str(smact)]
    return [*words, "--seconds", str(seconds), "--ramp", "2", "--print-every", "2"]


BY_STEPS = ("--seconds", "60", "--step-pattern", r"([\d.]+)/\d+ s ")
"""What does not hang on how fast processes start."""


def collocate(folder: Path, *words: str) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RADRM_")}
    command = [sys.executable, "-m", "radrm.cli.main", "bench", "collocate"]
    return subprocess.Popen(
        [*command, "--gpus", "sim:2xA100-40GB", "--time-scale", "50", *words],
        env={**environment, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> tuple[str, str]:
    said, errors = process.communicate(timeout=120)
    return said, errors


@pytest.mark.daemon
def test_the_physics_of_sharing_show(tmp_path: Path) -> None:
    """A heavy program: by MPS its copies lose little together, by time-slicing a third."""
    limits = ["--copies", "2", *BY_STEPS, "--json"]
    process = collocate(tmp_path, *limits, "--gpu", "1", "--", *_simjob(6, 1.0, 9000))
    said, errors = finished(process)
    assert process.returncode == 0, errors
    document = json.loads(said)
    rounds = {(r["mode"], r["copies"]): r for r in document["rounds"]}
    assert document["gpu"]["index"] == 1
    assert rounds["timeslice", 2]["throughput"] < 0.85 < rounds["mps", 2]["throughput"]
    # A real second a round: on a busy machine the first readings still show it idle.
    assert rounds["timeslice", 1]["smact"] > 0.3
    assert rounds["mps", 2]["memory_mib"] == 2 * rounds["mps", 1]["memory_mib"] == 12288
    assert all(r["power_w"] > 58 for r in rounds.values())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.daemon
def test_light_copies_pay_and_too_many_are_said_to_be(tmp_path: Path) -> None:
    # Whole runs, start-up included: that takes a busy machine a real second.
    words = ["--copies", "2,4,8", "--modes", "mps", "--time-scale", "15"]
    process = collocate(tmp_path, *words, "--", *_simjob(14, 0.2, 50))
    said, errors = finished(process)
    assert process.returncode == 0, errors
    gained = re.search(r"2 copies by mps do (\d\.\d\d) times the work", said)
    assert gained is not None and float(gained[1]) > 1.2
    assert re.search(r"mps +4 .* of 4 out of GPU memory", said)
    assert "8 copies" not in errors  # more than did not fit is not tried


@pytest.mark.daemon
def test_copies_on_mig_instances_do_not_disturb_each_other(tmp_path: Path) -> None:
    words = ["--gpus", "sim:1xA100-40GB:2g.10gb+2g.10gb+3g.20gb", "--copies", "2,4", "--json"]
    words += BY_STEPS
    process = collocate(tmp_path, *words, "--", *_simjob(4, 0.2, 9000))
    said, errors = finished(process)
    assert process.returncode == 0, errors
    document = json.loads(said)
    rounds = {(r["mode"], r["copies"]): r for r in document["rounds"]}
    assert set(rounds) == {("mig", 1), ("mig", 2)}
    assert "has 2 such instances" in errors
    assert rounds["mig", 2]["throughput"] > 1.7
    assert rounds["mig", 2]["memory_mib"] == 2 * rounds["mig", 1]["memory_mib"] == 8192
    assert document["gpu"]["profile"] == "2g.10gb"
    assert any("MIG instance (2g.10gb) of its own" in note for note in document["notes"])
    assert rounds["mig", 1]["pcie_rx_mb_s"] is None


@pytest.mark.daemon
@pytest.mark.parametrize(
    ("gpus", "mode", "said"),
    [
        ("sim:1xA100-40GB:7g.40gb", "mps", "is cut into MIG instances: --modes=mig"),
        ("sim:1xA100-40GB", "mig", "is not cut into MIG instances: --modes=timeslice,mps"),
    ],
)
def test_a_mode_that_the_gpu_cannot_have(tmp_path: Path, gpus: str, mode: str, said: str) -> None:
    process = collocate(tmp_path, "--gpus", gpus, "--modes", mode, "--", "true")
    _, errors = finished(process)
    assert process.returncode == 1
    assert said in errors


@pytest.mark.daemon
def test_a_command_that_fails_is_told_with_its_own_words(tmp_path: Path) -> None:
    process = collocate(tmp_path, "--", "sh", "-c", "echo no such data >&2; exit 3")
    said, errors = finished(process)
    assert (process.returncode, said) == (1, "")
    assert "copy 0 of 1 (timeslice) ended as failed" in errors
    assert "no such data" in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.daemon
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    process = collocate(tmp_path, "--", "sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 9000")
    pid = wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    process.send_signal(signal.SIGINT)
    finished(process)
    assert process.returncode == 130
    assert not os.path.exists(f"/proc/{int(pid)}")
    assert [file.name for file in tmp_path.iterdir()] == ["pid"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seconds", "5"], "--seconds needs --step-pattern"),
        (["--copies", "none"], "--copies"),
        (["--modes", "streams"], "--modes"),
        (["--step-pattern", "("], "--step-pattern"),
    ],
)
def test_words_that_cannot_be(tmp_path: Path, words: list[str], said: str) -> None:
    process = collocate(tmp_path, *words, "--", "true")
    _, errors = finished(process)
    assert process.returncode == 2
    assert said in errors
