"""The watcher of a process that radrm did not start. All processes are real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from radrm.core.lifecycle import adopted as core
from radrm.host.processes.adopted import ENDED, OVER, Watched, adopted_by, watcher_command
from radrm.host.processes.identity import Identity, alive, identify
from radrm.host.processes.procfs import status_of
from tests.waiting import wait_until

STUBBORN = "trap '' TERM; (trap '' TERM; while :; do sleep 0.05; done) & echo $!; wait"


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def watch(
    identity: Identity, for_s: float | None = None, grace_s: float = 30.0
) -> subprocess.Popen[bytes]:
    command = watcher_command(Watched(identity), for_s, grace_s)
    watcher = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    term = 1 << signal.SIGTERM - 1
    wait_until(
        lambda: (
            watcher.poll() is not None or int(status_of(watcher.pid, b"SigCgt") or b"0", 16) & term
        ),
        "the watcher to be ready",
    )
    return watcher


def its(process: subprocess.Popen[str]) -> Identity:
    found = identify(process.pid)
    assert found is not None
    return found


def test_it_ends_with_its_process() -> None:
    with running("sleep", "99") as process:
        watcher = watch(its(process))
        assert watcher.poll() is None
        process.kill()
        assert watcher.wait(30) == ENDED


def test_it_ends_when_its_time_is_over_and_the_process_runs_on() -> None:
    with running("sleep", "99") as process:
        assert watch(its(process), for_s=0.1).wait(30) == OVER
        assert process.poll() is None


@pytest.mark.parametrize("later, boot", [(1, None), (0, "0" * 36)])
def test_another_process_with_the_pid_is_neither_watched_nor_ended(
    later: int, boot: str | None
) -> None:
    with running("sleep", "99") as process:
        real = its(process)
        other = Identity(real.pid, real.start_ticks + later, boot or real.boot_id)
        watcher = watch(other)
        assert watcher.wait(30) == ENDED
        assert process.poll() is None


def test_a_cancel_ends_the_process_and_what_it_has_started() -> None:
    """Both ignore TERM, so they get KILL, before the grace time is over."""
    with running("bash", "-c", STUBBORN) as process:
        assert process.stdout is not None
        child = identify(int(process.stdout.readline()))
        assert child is not None
        watcher = watch(its(process), grace_s=1.0)
        watcher.terminate()
        assert watcher.wait(30) == ENDED
        assert process.wait(30) == -signal.SIGKILL
        wait_until(lambda: not alive(child), "the child's end")


def test_a_process_that_heeds_term_is_not_killed() -> None:
    code = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); print(flush=True)"
    with running(sys.executable, "-c", f"{code}; time.sleep(99)") as process:
        assert process.stdout is not None
        process.stdout.readline()
        watcher = watch(its(process))
        watcher.terminate()
        assert watcher.wait(30) == ENDED
        assert process.wait(30) == 7


def test_the_process_outlives_a_watcher_that_is_killed() -> None:
    with running("sleep", "99") as process:
        watcher = watch(its(process))
        watcher.kill()
        assert watcher.wait(30) == -signal.SIGKILL
        assert process.poll() is None


def test_the_launch_record_names_it() -> None:
    me = identify(os.getpid())
    assert me is not None
    assert adopted_by({"adopts": Watched(me, 3.0).as_fields()}) == me
    assert adopted_by({"adopts": None}) is None and adopted_by({}) is None


def test_the_core_knows_the_watchers_exit_codes() -> None:
    """The watcher is started for each process, and does not import the core for two numbers."""
    assert (ENDED, OVER) == (core.ENDED, core.OVER)
