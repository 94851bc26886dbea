"""The next daemon: what it finds of the attempts of the daemon before it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from radrm.core.records import Exit
from radrm.errors import StoreError
from radrm.host.attempts import evidence
from radrm.host.attempts import folder as attempts
from radrm.host.attempts.evidence import Ended, Evidence, Lost, Running, Started, State, Void
from radrm.host.attempts.launcher import Launcher
from radrm.host.clock import Clock
from radrm.host.processes.identity import Identity, identify
from tests.host.attempts.host import SERIAL, SLEEPER, Host, next_of, write_start
from tests.host.processes.programs import PYTHON, SLEEP, gone
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("records", "its_runner", "state"),
    [
        (("launch",), "", State.VOID),
        (("launch", "daemon"), "", State.VOID),
        (("launch", "runner"), "lives", State.LAUNCHED),
        (("launch", "runner"), "is dead", State.ORPHANED),
        (("launch", "runner", "start"), "lives", State.STARTED),
        (("launch", "runner", "start"), "is dead", State.ORPHANED),
        (("launch", "runner", "start"), "ran before the server went down", State.LOST),
        (("launch", "runner", "start", "exit"), "lives", State.ENDED),
        (("launch", "runner", "exit"), "is dead", State.ENDED),
        ((), "", State.VOID),
    ],
)
def test_what_the_records_prove(
    tmp_path: Path, records: tuple[str, ...], its_runner: str, state: State
) -> None:
    folder, me = tmp_path / "7", identify(os.getpid())
    assert me is not None
    boot = "another" if "server" in its_runner else me.boot_id
    runner = Identity(me.pid, me.start_ticks + (its_runner == "is dead"), boot)
    times = {**attempts.now(), "boot_id": boot}
    fields = {
        "start": {
            "pid": me.pid,
            "start_ticks": 1,
            **times,
            "runner_pid": runner.pid,
            "runner_start_ticks": runner.start_ticks,
        },
        "exit": {**attempts.NO_END, "code": 0, **times},
    }
    if records:
        folder.mkdir()
    for name in records:
        if name in ("daemon", "runner"):
            assert attempts.Claim.take(str(folder), name, runner)
        elif name != "launch":
            attempts.write_record(str(folder), f"{name}.json", fields[name])
    for _ in range(2):  # the same for each daemon
        found = Evidence(str(folder), Clock()).found(None)
        assert found.state is state
        assert (found.pidfd is not None) == (state in (State.LAUNCHED, State.STARTED))
        assert (found.started is not None) == ("start" in records and state is not State.LOST) or (
            found.ended is not None
        )
        if found.pidfd is not None:
            os.close(found.pidfd)


def test_adopting_one_that_runs(host: Host) -> None:
    first = host.daemon()
    first.launch(
        host.plan("sh", "-c", "touch ready; until test -e go; do sleep 0.01; done; exit 9")
    )
    started = next_of(first)
    second = host.daemon()
    found = second.adopt(SERIAL, 3)
    assert isinstance(found, Running) and found.started is not None
    assert isinstance(started, Started) and found.started.pid == started.pid
    assert second.poll(SERIAL) is None
    assert second.owner_of(started.pid) == (3, SERIAL)
    (host.cwd / "go").touch()
    ended = next_of(second)
    assert isinstance(ended, Ended) and ended.exit == Exit(code=9)


LEFT = "sh -c 'touch ready; until test -e go; do sleep 0.01; done' & exit 4"


@pytest.mark.parametrize("waits", [True, False])
def test_adopting_one_whose_main_process_has_ended(host: Host, waits: bool) -> None:
    """It runs while it waits for the rest, or drains a pipe (here the command's own)."""
    plan = host.plan("bash", "-c", LEFT if waits else f"exec 3> >({LEFT})", waits_for_all=waits)
    first = host.daemon()
    first.launch(plan)
    host.ready()
    started = next_of(first)
    assert isinstance(started, Started)
    wait_until(lambda: gone(started.pid))
    second = host.daemon()
    found = second.adopt(SERIAL, 3)
    assert isinstance(found, Running) and found.started is not None
    assert second.poll(SERIAL) is None
    (host.cwd / "go").touch()
    ended = next_of(second)
    assert isinstance(ended, Ended) and ended.left is None
    assert ended.exit == Exit(code=4 if waits else 0)


@pytest.mark.parametrize("order", [Launcher.terminate, Launcher.kill])
def test_an_adopted_one_can_be_ended(host: Host, order: Callable[[Launcher, int], None]) -> None:
    host.daemon().launch(host.plan(*SLEEPER))
    host.ready()
    second = host.daemon()
    assert isinstance(second.adopt(SERIAL, 3), Running)
    order(second, SERIAL)
    assert isinstance(next_of(second), Ended)


def test_adopting_one_that_has_ended(host: Host) -> None:
    host.daemon().launch(host.plan("sh", "-c", "kill -11 $$"))
    wait_until((host.folder / "exit.json").exists)
    for _ in range(2):
        found = host.daemon().adopt(SERIAL, 3)
        assert isinstance(found, Ended) and found.exit == Exit(signal=11)
        assert found.started is not None


def test_adopting_one_whose_runner_was_killed_meanwhile(host: Host) -> None:
    first = host.daemon()
    first.launch(host.plan(*SLEEPER))
    host.ready()
    host.kill_runner()
    assert host.processes()
    second = host.daemon()
    lost = second.adopt(SERIAL, 3)
    assert isinstance(lost, Lost) and lost.began and lost.started is not None
    assert not host.processes()
    assert second.fds() == {}


def test_adopting_one_that_was_never_made(host: Host) -> None:
    assert host.daemon().adopt(SERIAL, 3) == Void()


def test_the_daemon_takes_the_claim_and_the_runner_stands_down(host: Host) -> None:
    host.prepare()
    assert host.daemon().adopt(SERIAL, 3) == Void()
    assert host.start_runner().wait() == 0
    assert not list(host.cwd.iterdir())
    third = host.daemon()
    assert third.adopt(SERIAL, 3) == Void(), "and that stays so"
    third.forget(SERIAL)
    assert not host.folder.exists()
    late = host.start_runner()
    assert late.wait() != 0
    assert not host.folder.exists() and not list(host.cwd.iterdir())


def test_a_runner_that_loses_its_folder_to_forget(host: Host) -> None:
    """It stood still from its start until the claim was gone with all the rest."""
    host.prepare()
    daemon = host.daemon()
    assert daemon.adopt(SERIAL, 3) == Void()
    (host.folder / "launch.json").unlink()  # what `forget` does first
    (host.folder / "claim").unlink()
    assert host.start_runner().wait() == 0
    assert not list(host.cwd.iterdir())


@pytest.fixture
def stand_in() -> Iterator[subprocess.Popen[bytes]]:
    """A process that passes for a runner which has come just as far as the test says."""
    process = subprocess.Popen([*PYTHON, SLEEP])
    yield process
    process.kill()
    process.wait()


def claim(host: Host, who: Identity) -> None:
    assert attempts.Claim.take(str(host.folder), attempts.RUNNER, who)


def test_claimed_and_not_started_yet(host: Host, stand_in: subprocess.Popen[bytes]) -> None:
    host.prepare()
    who = identify(stand_in.pid)
    assert who is not None
    claim(host, who)
    daemon = host.daemon()
    assert daemon.adopt(SERIAL, 3) == Running(None)
    assert daemon.poll(SERIAL) is None
    stand_in.kill()
    assert next_of(daemon) == Lost("its runner was killed before it could begin", False, None)


def test_a_start_that_is_seen_later(host: Host, stand_in: subprocess.Popen[bytes]) -> None:
    host.prepare()
    who = identify(stand_in.pid)
    assert who is not None
    claim(host, who)
    daemon = host.daemon()
    assert daemon.adopt(SERIAL, 3) == Running(None)
    write_start(host, who)
    assert isinstance(daemon.poll(SERIAL), Started)
    assert daemon.poll(SERIAL) is None


def test_another_boot_is_lost_and_nobody_is_killed(
    host: Host, stand_in: subprocess.Popen[bytes]
) -> None:
    host.prepare()
    who = identify(stand_in.pid)
    assert who is not None
    write_start(host, who, boot_id="another-boot", pid=stand_in.pid, wall_s=1000.0)
    bystander = subprocess.Popen([*PYTHON, SLEEP], env={"RADRM_TOKEN": host.token})
    lost = host.daemon().adopt(SERIAL, 3)
    assert isinstance(lost, Lost) and lost.reason == "the server went down while it ran"
    assert lost.started.at.wall_s == 1000.0
    assert stand_in.poll() is None and bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_another_boot_before_the_start(host: Host) -> None:
    host.prepare()
    claim(host, Identity(os.getpid(), 1, "another-boot"))
    lost = host.daemon().adopt(SERIAL, 3)
    assert lost == Lost("the server went down before it could begin", False, None)


def test_a_claim_of_nobody_is_void(host: Host) -> None:
    """Killed between making the claim and writing it, the runner had begun nothing."""
    host.prepare()
    (host.folder / "claim").touch()
    assert host.daemon().adopt(SERIAL, 3) == Void()
    assert host.start_runner().wait() == 0
    assert not list(host.cwd.iterdir())


def test_a_claim_being_written_is_waited_for(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.prepare()
    (host.folder / "claim").touch()
    lock = attempts.take_lock(str(host.folder))
    monkeypatch.setattr(evidence, "_CLAIM_PATIENCE_S", 0.0)
    with pytest.raises(StoreError, match="does not say who it is"):
        host.daemon().adopt(SERIAL, 3)
    os.close(lock)
    assert host.daemon().adopt(SERIAL, 3) == Void()
