"""`radrm bench collocate` as a whole, on simulated GPUs."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from radrm.cli import main as entry
from tests.daemon.harness import simjob
from tests.documents import errors_of
from tests.paths import REPOSITORY
from tests.waiting import wait_text

BY_STEPS = ("--seconds", "120", "--step-pattern", r"([\d.]+)/\d+ s ")
"""What does not hang on how fast processes start."""


def collocate(folder: Path, *words: str) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RADRM_")}
    command = [sys.executable, "-m", "radrm.cli.main", "bench", "collocate"]
    return subprocess.Popen(
        [*command, "--gpus", "sim:2xA100-40GB", "--time-scale", "50", *words],
        env={**environment, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(folder)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> tuple[str, str]:
    said, errors = process.communicate(timeout=120)
    if said.startswith("{"):
        assert errors_of(["bench", "collocate"], json.loads(said)) == []
    return said, errors


@pytest.mark.daemon
@pytest.mark.nightly
def test_the_model_of_sharing_shows(tmp_path: Path) -> None:
    """A heavy program: by MPS its copies lose little together, by time-slicing a third."""
    limits = ["--copies", "2", *BY_STEPS, "--json"]
    process = collocate(tmp_path, *limits, "--gpu", "1", "--", *simjob(6, 1.0, 9000))
    said, errors = finished(process)
    assert process.returncode == 0, errors
    document = json.loads(said)
    rounds = {(r["mode"], r["copies"]): r for r in document["rounds"]}
    assert document["gpu"]["index"] == 1
    assert rounds["timeslice", 2]["throughput"] < 0.85 < rounds["mps", 2]["throughput"]
    # Two real seconds a round: on a busy machine the first readings still show it idle.
    assert rounds["timeslice", 1]["smact"] > 0.3
    assert rounds["mps", 2]["memory_mib"] == 2 * rounds["mps", 1]["memory_mib"] == 12288
    assert all(r["power_w"] > 58 for r in rounds.values())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
@pytest.mark.daemon
def test_light_copies_pay_and_too_many_are_said_to_be(tmp_path: Path) -> None:
    # Whole runs, start-up included: that takes a busy machine a real second.
    words = ["--copies", "2,4,8", "--modes", "mps", "--time-scale", "15"]
    process = collocate(tmp_path, *words, "--", *simjob(14, 0.2, 50))
    said, errors = finished(process)
    assert process.returncode == 0, errors
    gained = re.search(r"2 copies by mps do (\d\.\d\d) times the work", said)
    assert float(gained[1]) > 1.2
    assert re.search(r"mps +4 .* of 4 out of GPU memory", said)
    assert "8 copies" not in errors  # more than did not fit is not tried


@pytest.mark.nightly
@pytest.mark.daemon
def test_copies_on_mig_instances_do_not_disturb_each_other(tmp_path: Path) -> None:
    words = ["--gpus", "sim:1xA100-40GB:2g.10gb+2g.10gb+3g.20gb", "--copies", "2,4", "--json"]
    words += BY_STEPS
    process = collocate(tmp_path, *words, "--", *simjob(4, 0.2, 9000))
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


@pytest.mark.nightly
@pytest.mark.daemon
def test_different_programs_run_alone_and_together(tmp_path: Path) -> None:
    words = ["--modes", "mps", *BY_STEPS, "--json"]
    light, heavy = simjob(20, 0.2, 9000), simjob(6, 1.0, 9000)
    process = collocate(tmp_path, *words, "--with", shlex.join(heavy), "--", *light)
    said, errors = finished(process)
    assert process.returncode == 0, errors
    document = json.loads(said)
    assert (document["command"], document["with"]) == (light, [heavy])
    one, other, both = document["rounds"]
    assert [r["programs"] for r in document["rounds"]] == [[1], [2], [1, 2]]
    # The model: what the heavy one loses is less than what the light one does meanwhile.
    assert both["slowdowns"][1] > 1.1
    assert both["throughput"] == pytest.approx(sum(1 / s for s in both["slowdowns"]))
    assert both["throughput"] > 1.2
    assert (one["memory_mib"], other["memory_mib"]) == (20480, 6144)
    assert both["memory_mib"] == 26624
    assert "policies.packing.max_demand" in document["notes"][-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.daemon
def test_a_command_that_fails_is_told_with_its_own_words(tmp_path: Path) -> None:
    process = collocate(tmp_path, "--", "sh", "-c", "echo no such data >&2; exit 3")
    said, errors = finished(process)
    assert (process.returncode, said) == (1, "")
    assert "copy 0 of 1 (timeslice) ended as failed" in errors
    assert "no such data" in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.daemon
@pytest.mark.nightly
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    process = collocate(tmp_path, "--", "sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 9000")
    pid = wait_text(tmp_path / "pid")
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
        (["--copies", "2", "--with", "true"], "--copies goes without --with"),
        (["--with", "a 'b"], '--with: "a \'b": no closing quotation'),
        (["--step-pattern", "("], "--step-pattern"),
    ],
)
def test_words_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["radrm", "bench", "collocate", *words, "--", "true"])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
