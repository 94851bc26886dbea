"""`radrm bench collocate`: which GPU it takes, and how it watches a round."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from radrm.errors import Refused
from radrm.host.storage.paths import client_paths
from radrm.lab.experiments.collocate import place as bench_place
from radrm.lab.experiments.collocate.numbers import Steps, compiled
from radrm.lab.experiments.collocate.place import Job, Manager, choose, instances, note_on
from radrm.lab.experiments.collocate.rounds import _Watch, last_lines
from radrm.lab.experiments.collocate.server import config_in_force
from tests.cli.fakes import ESC, gpu
from tests.daemon.harness import DaemonHome, simjob

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
        ([device(0)], None, [device(0, state="drained", jobs=[3])], "is managed by"),
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
    job = daemon.submit("--collocation=exclusive", "--", *simjob(8, 0.3, 9000))
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
