"""The acceptance run's own machinery, tried with steps that need no GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import asdict

from benchmarks import micro
from proofs.acceptance import children, first, hardware, main, report
from proofs.acceptance.step import Failed, Step, perform
from proofs.processes import Process
from tests.paths import REPOSITORY

# A program that orphans a sleeper in a session of its own, as a daemon does, and ends.
LEAVES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "600"])
    os._exit(0)
os.wait()
print("left", flush=True)
time.sleep(float(sys.argv[1]))
"""

# Whoever is the subreaper is it for good: so the runs are those of a process of their own.
RUNS = """
import json, os, sys
from pathlib import Path
from proofs.acceptance import children
from radrm.host.processes.tree import become_subreaper
become_subreaper()
seconds, limit_s = sys.argv[2:]
command = [sys.executable, "-c", Path(sys.argv[1]).read_text(), seconds]
found = children.run(command, float(limit_s), Path(sys.argv[1] + ".log"), os.environ)
left = [[each.pid, " ".join(each.words)] for each in found.left]
print(json.dumps([found.code, left, len(children.settled())]))
"""


def run_child(tmp_path: Path, seconds: float, limit_s: float) -> tuple[Any, list[Any], int]:
    program = tmp_path / "leaves.py"
    program.write_text(LEAVES)
    command = [sys.executable, "-c", RUNS, str(program), str(seconds), str(limit_s)]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=True
    )
    code, left, still = json.loads(done.stdout)
    return code, left, still


# ------------------------------------------------------------------ processes


def test_what_a_step_leaves_is_found_and_ended(tmp_path: Path) -> None:
    code, left, still = run_child(tmp_path, 0, 30)
    assert code == 0
    assert [command for _, command in left] == ["sleep 600"]
    assert still == 0
    assert not os.path.exists(f"/proc/{left[0][0]}")


def test_a_step_past_its_limit_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    code, left, still = run_child(tmp_path, 600, 0.6)
    assert code is None
    assert "sleep 600" in [command for _, command in left]
    assert still == 0


# ------------------------------------------------------------------ steps and parts


def test_a_step_that_fails_says_why(tmp_path: Path) -> None:
    def fails(step: Step) -> str:
        step.record(seen=3)
        raise Failed("three is too many")

    def breaks(step: Step) -> str:
        raise KeyError("smact")

    assert not perform("a", fails, tmp_path)
    assert not perform("b", breaks, tmp_path)
    assert perform("c", lambda step: "well", tmp_path)
    results = [json.loads((tmp_path / "results" / f"{n}.json").read_text()) for n in "abc"]
    assert [r["line"] for r in results] == ["three is too many", "KeyError: 'smact'", "well"]
    assert [r["passes"] for r in results] == [False, False, True]
    assert results[0]["facts"] == {"seen": 3}


def steps_of(monkeypatch: pytest.MonkeyPatch, results: dict[str, children.Ended]) -> None:
    """Each step ends so; those that pass have written their result."""

    def run(command: list[str], limit_s: float, log: Path, environment: Any) -> children.Ended:
        name, out = command[-2:]
        ended = results[name]
        if ended.code == 0:
            perform(name, lambda step: "well", Path(out))
        return ended

    monkeypatch.setattr(children, "run", run)
    monkeypatch.setattr(children, "settled", list)
    # It ends all children of this process, and other tests have some.
    monkeypatch.setattr(children, "end_all", lambda grace_s: None)
    monkeypatch.setattr(main, "gpu_state", lambda environment: {"GPU-1": "Default, Disabled, 5"})


def test_a_part_counts_what_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeper = Process(77, 1, 5, ("sleep", "600"))
    steps_of(
        monkeypatch,
        {
            "good": children.Ended(0, 1.0),
            "late": children.Ended(None, 9.0),
            "leaves": children.Ended(0, 1.0, (sleeper,)),
            "dies": children.Ended(1, 1.0),
        },
    )
    for name in ("logs", "results", "raw"):
        (tmp_path / name).mkdir()
    said: list[str] = []
    steps = [SimpleNamespace(name=n, limit_s=9.0) for n in ("good", "late", "leaves", "dies")]
    assert main.run_part(1, steps, tmp_path, {}, say=said.append) == 3
    assert [line.split()[:2] for line in said] == [
        ["good", "ok"],
        ["late", "FAILED"],
        ["leaves", "FAILED"],
        ["dies", "FAILED"],
        ["clean-1", "ok"],
    ]
    assert "took more than 9 s" in said[1]
    assert "it left 1 processes: 77 (sleep 600)" in said[2]
    assert "it wrote no result" in said[3]


# ------------------------------------------------------------------ what is brought back


def test_the_report_has_what_the_page_demands(tmp_path: Path) -> None:
    for name in ("results", "raw", "logs"):
        (tmp_path / name).mkdir()
    fields = "driver_version, name\n580.1, NVIDIA H100 80GB HBM3\n"
    run = {"step_s": 2.0, "cpu_s": 10.0, "memory_mib": 900.0}
    runs = {"light": {"none": [run], "top": [{**run, "bytes": 20_000}]}}
    costs = {"runs": runs, "daemon": {"cpu_share": 0.01, "memory_mib": 60.0}}
    point = asdict(micro.Point(66, 32, 1.0, 0.9, None, 0.25, samples=4))
    shared = {"seconds": 6.0, "each_s": [1.0, 6.0], "all_smact": 0.5, "rest_smact": None}
    shared |= {"all_mib": 900.0, "rest_mib": None}
    mixes = {"SM": {"serial": {"seconds": 8.0}, "mps": shared}}
    for name, passes, facts in (
        ("facts", True, {"fields": fields, "cpus": 16}),
        ("near", False, {}),
        ("overhead", True, costs),
        ("metrics", True, {"points": [point]}),
        ("mixed", False, {"alone": {}, "mixes": mixes}),
    ):
        result = {"name": name, "passes": passes, "line": "a|b", "seconds": 2.0, "facts": facts}
        (tmp_path / "results" / f"{name}.json").write_text(json.dumps(result))
    (tmp_path / "raw" / "nvidia-smi.txt").write_text("a GPU\n")
    page = report.write([tmp_path], tmp_path / "out")
    assert page.name.endswith("-nvidia-h100-80gb-hbm3.md")
    assert time.strftime("%Y") in page.name
    text = page.read_text()
    assert "3 of 5 steps passed" in text
    assert "| near | **failed** | 2 | a/b | CPUs and GPUs near this one; its fabric |" in text
    assert "| light | top | 2000.0 | 20.0 | 10 | 900 |" in text
    assert "| 66 | 32 | 1.000 | 0.900 | | 0.250 |" in text
    assert "| S+M | mps | 6.0 | -25 % | 1.0, 6.0 | 0.50, ? | 900, ? |" in text
    assert "Not run: nvml-root, " in text
    with tarfile.open(page.with_suffix(".tar.gz")) as archive:
        assert f"{page.stem}/raw/nvidia-smi.txt" in archive.getnames()


def test_a_rehearsal_passes_for_no_measurement(tmp_path: Path) -> None:
    for name, rehearsed in (("a", False), ("b", True)):
        (tmp_path / name / "results").mkdir(parents=True)
        result = {"name": f"step-{name}", "passes": True, "line": "", "seconds": 1.0, "facts": {}}
        result |= {"rehearsal": True} if rehearsed else {}
        (tmp_path / name / "results" / "x.json").write_text(json.dumps(result))
    page = report.write([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert page.name.startswith("rehearsal-")
    assert "nothing on this page is a measurement" in page.read_text()


def test_a_serial_number_is_not_kept() -> None:
    assert first.masked("<gpu><serial>1562821083900</serial>") == "<gpu><serial>0</serial>"


TOPOLOGY = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\x1b[0m
GPU0\t X \tNV12\tSYS\tPIX\t0-31
GPU1\tNV12\t X \tSYS\tSYS\t0-31
GPU2\tSYS\tSYS\t X \tSYS\t32-63
NIC0\tPIX\tSYS\tSYS\t X
"""


@pytest.mark.parametrize(
    ("near", "wrong"),
    [
        ({0: {"nvlink_group": 0}, 1: {"nvlink_group": 0}, 2: {"nvlink_group": None}}, []),
        ({0: {"nvlinks": {"1": 12}}, 1: {"nvlinks": {"0": 12}}, 2: {}}, []),
        ({0: {"nvlink_group": None}, 1: {"nvlink_group": None}, 2: {}}, ["GPU 0 and 1: NV12"]),
        (
            {0: {"nvlink_group": 0}, 1: {"nvlink_group": 1}, 2: {"nvlink_group": 0}},
            ["GPU 0 and 1: NV12", "GPU 0 and 2: SYS"],
        ),
    ],
)
def test_nvlink_as_nvidia_smi_has_it(near: dict[int, Any], wrong: list[str]) -> None:
    found = hardware.unlike(TOPOLOGY, near)
    assert [each.partition(",")[0] for each in found] == wrong


def test_kernels_grow_from_one_thread_to_all_blocks_that_there_may_be() -> None:
    sizes = micro.sizes(108)
    assert sizes[0] == (1, 1)
    assert sizes[-1] == (3456, 1024)  # an A100's, as the thesis has it
    assert len(sizes) == len(set(sizes))


@pytest.mark.nightly
def test_labels_are_measured_as_on_a_gpu(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "benchmarks.gpumemnet.label", "cnn", "0", "3", "--cpu"]
    command += ["--output", str(tmp_path / "labels.csv")]
    subprocess.run(command, cwd=REPOSITORY, timeout=300, check=True)
    head, row = (tmp_path / "labels.csv").read_text().splitlines()
    name, measured_mib, modelled_mib = row.split(",")  # cnn-0 is too large to try without a GPU
    assert (name, modelled_mib) == ("cnn-2", "1740.0")
    assert int(measured_mib) > 0
    assert head == "name,memory_mib,modelled_mib"
