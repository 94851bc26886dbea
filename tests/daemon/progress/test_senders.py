"""A job's log, script and Python tell the daemon how far it is: a real daemon, real jobs."""

from __future__ import annotations

import sys

import pytest

from tests.daemon.harness import DaemonHome
from tests.paths import REPOSITORY
from tests.waiting import wait_until

WAIT = "until test -e go; do sleep 0.1; done"
PYTHON = (
    "import importlib.util, os, time\n"
    "spec = importlib.util.spec_from_file_location('report', os.environ['RADRM_REPORT_PY'])\n"
    "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)\n"
    "report = module.Reporter(); report.progress(step=30, total=100, loss=0.5)\n"
    "while not os.path.exists('go'): time.sleep(0.1)\n"
)
IMPORT = (
    "from radrm.report import Reporter; import os, time\n"
    "Reporter().progress(step=30, total=100, loss=0.5)\n"
    "while not os.path.exists('go'): time.sleep(0.1)\n"
)
LAST = 'PYTHONPATH="${PYTHONPATH##*:}" exec "$0" -S -c "$1"'
COMMAND = f"{sys.executable} -m radrm.cli.main progress --step 30 --total 100"
WAYS = {
    "log": ("--progress-pattern=auto", "--", "sh", "-c", f"echo step 30/100; {WAIT}"),
    "pattern": (
        *(r"--progress-pattern=at (?P<step>\d+) of (?P<total>\d+)", "--"),
        *("sh", "-c", f"echo at 30 of 100 >&2; {WAIT}"),
    ),
    "file": ("--progress-file=steps", "--", "sh", "-c", f"echo step=30 total=100 >steps; {WAIT}"),
    "script": ("--", "sh", "-c", f"{COMMAND}; {WAIT}"),
    "python": ("--", sys.executable, "-I", "-c", PYTHON),
    "import": ("--", "sh", "-c", LAST, sys.executable, IMPORT),
}


@pytest.fixture
def daemon(home: DaemonHome) -> DaemonHome:
    home.settings = ["progress.interval_s=1", "core.gpuless_at_once=9"]
    home.start()
    return home


def test_every_way_to_report(daemon: DaemonHome) -> None:
    daemon.environment["PYTHONPATH"] = str(REPOSITORY)
    jobs = {way: daemon.submit("--gpus=0", *words) for way, words in WAYS.items()}
    for way, job in jobs.items():
        told = wait_until(lambda job=job: daemon.job(job)["progress"], way)
        assert (told["step"], told["total"]) == (30, 100), way
    (daemon.work / "go").touch()
    for job in jobs.values():
        assert daemon.wait_end(job)["state"] == "COMPLETED"


def test_a_wrong_pattern_is_refused_when_it_is_submitted(daemon: DaemonHome) -> None:
    done = daemon.radrm("submit", r"--progress-pattern=step (\d+)", "--", "true")
    assert done.returncode == 2
    assert "--progress-pattern: " in done.stderr and "it has no group" in done.stderr
