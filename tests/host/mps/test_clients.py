"""The work of clients is removed before a signal ends them; meanwhile their GPUs take no job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from radrm.host.mps.control import Control
from radrm.host.mps.keeper import Keeper
from radrm.host.mps.removal import Which
from radrm.host.mps.service import end_clients
from radrm.host.processes.tree import dies_of
from tests.host.mps.controls import Place
from tests.waiting import wait_until


def kept(control: Control) -> Keeper:
    keeper = Keeper("GPU 0", control, True)
    keeper.round(0.0)
    keeper.round(0.0)
    assert keeper.ready
    return keeper


def told_after(keeper: Keeper, pids: list[int], which: Which = Which.ALL) -> None:
    """End these clients, and wait until the signal may follow."""
    done: list[bool] = []
    owners = dict.fromkeys(pids, (7, 1))
    end_clients([keeper], (7, 1), owners.get, which, 5.0, lambda: done.append(True))
    wait_until(lambda: done, "the signal")


def test_before_term_those_alone_that_it_would_end(place: Place) -> None:
    control = place.control()
    keeper = kept(control)
    plain, its = place.client(control)
    saving, others = place.client(control, "saves")
    stubborn, rest = place.client(control, "stubborn")
    assert [dies_of(p, signal.SIGTERM) for p in (plain, saving, stubborn)] == [True, False, False]
    told_after(keeper, [plain, saving, stubborn], Which.END_BY_TERM)
    assert "terminate" in its.read_text()
    assert "terminate" not in others.read_text() + rest.read_text()
    told_after(keeper, [plain, saving, stubborn])
    wait_until(lambda: "terminate" in others.read_text() and "terminate" in rest.read_text())


def test_one_whose_launcher_saves_on_term_keeps_its_work(place: Place) -> None:
    """TERM is the signal by which its job wants to be asked to save."""
    control = place.control()
    keeper = kept(control)
    program = "import signal, subprocess, sys; signal.signal(15, lambda *_: None)\n"
    program += "sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    worker, notes = place.client(control, before=(sys.executable, "-c", program))
    launcher = int(open(f"/proc/{worker}/stat").read().rsplit(")", 1)[1].split()[1])
    told_after(keeper, [worker, launcher], Which.END_BY_TERM_ALONE)
    assert "terminate" not in notes.read_text()
    told_after(keeper, [worker, launcher], Which.END_BY_TERM)
    wait_until(lambda: "terminate" in notes.read_text(), "torchrun's worker to lose its work")


def test_meanwhile_its_gpus_take_no_job_and_a_launch_waits(place: Place) -> None:
    control = place.control()
    keeper = kept(control)
    client, _ = place.client(control)
    keeper.round(1.0)
    assert not keeper.wait_for_server(os.geteuid(), lambda: None), "its server is there"
    with keeper.ending(7):
        assert keeper.hold == "its MPS server is removing the work of job 7"
        went: list[str] = []
        assert keeper.wait_for_server(os.geteuid(), lambda: went.append("on"))
        keeper.round(2.0)
        assert went == []
    keeper.round(2.0)
    assert went == ["on"] and keeper.hold is None and client


@pytest.mark.nightly
def test_several_attempts_end_at_once_though_it_takes_one_command_at_a_time(place: Place) -> None:
    """Those that came second were refused, and their clients got a raw signal."""
    control = place.control()
    keeper = kept(control)
    started = [place.client(control) for _ in range(2)]
    place.wrong(single=True, removes=0.1)
    done: list[int] = []
    for pid, _ in started:
        owner_of: Any = {pid: (pid, 1)}.get
        end_clients([keeper], (pid, 1), owner_of, Which.ALL, 5.0, lambda: done.append(1))
    wait_until(lambda: len(done) == 2, "all signals")
    for _, notes in started:
        wait_until(lambda notes=notes: "terminate" in notes.read_text(), "its work to be removed")


def test_a_control_daemon_that_hangs_delays_the_signal_for_a_limited_time(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    control = place.control()
    keeper = kept(control)
    client, _ = place.client(control)
    place.wrong(removes=60)
    done: list[bool] = []
    end_clients([keeper], (7, 1), {client: (7, 1)}.get, Which.ALL, 0.3, lambda: done.append(True))
    wait_until(lambda: done, "the signal")
    assert "radrm ends it anyway" in caplog.text and keeper.hold is None


@pytest.fixture
def blocker() -> Iterator[subprocess.Popen[bytes]]:
    program = (
        "import signal, sys; signal.signal(15, signal.SIG_IGN); print(flush=True); sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe)
    assert child.stdout.readline()
    yield child
    child.kill()
    child.communicate()


def test_one_that_ignores_term_keeps_its_work(blocker: subprocess.Popen[bytes]) -> None:
    assert not dies_of(blocker.pid, signal.SIGTERM) and dies_of(blocker.pid, signal.SIGUSR1)
