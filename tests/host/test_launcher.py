"""The launcher with real runners: what a daemon, its successor and a KILL at any moment see."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core.records import Exit
from radrm.errors import Refused, StoreError
from radrm.host.attempts import cgroups, evidence, launcher, runner
from radrm.host.attempts import folder as attempts
from radrm.host.attempts.evidence import Ended, Lost, Running, Started, Void
from radrm.host.attempts.launcher import Launcher, LaunchPlan
from radrm.host.attempts.processes import Identity, attempt_processes, identify, kill_tree
from radrm.host.attempts.procfs import token_of
from radrm.host.clock import Clock
from tests.host.test_processes import ESCAPED, PYTHON, SLEEP, gone, read_pid, wait_until

SERIAL = 7


class Host:
    """A state folder, and the daemons that follow one another on it."""

    def __init__(self, place: Path) -> None:
        self.state = place / "state"
        self.state.mkdir()
        self.cwd = place / "work"
        self.cwd.mkdir()
        self.folder = self.state / "attempts" / str(SERIAL)
        self.token = f"token-{os.getpid()}-{place.name}"
        self.launchers: list[Launcher] = []

    def daemon(self, clock: Clock | None = None, keep: bool = False) -> Launcher:
        """A new daemon; the one before it is gone."""
        if self.launchers:
            self.launchers[-1].close()
        self.launchers.append(Launcher(self.state, clock or Clock(), keep))
        return self.launchers[-1]

    def plan(self, *argv: str, **changes: Any) -> LaunchPlan:
        fields: dict[str, Any] = {
            "serial": SERIAL,
            "job_id": 3,
            "attempt": 2,
            "uid": None,
            "gid": None,
            "user": "me",
            "argv": list(argv),
            "cwd": str(self.cwd),
            "environment": {"PATH": os.environ["PATH"], "RADRM_TOKEN": "of-another-job"},
            "stdout": str(self.cwd / "out"),
            "stderr": str(self.cwd / "err"),
            "token": self.token,
            "kill_grace_s": 0.2,
        }
        return LaunchPlan(**fields | changes)

    def ready(self) -> None:
        wait_until((self.cwd / "ready").exists)

    def processes(self) -> set[int]:
        return attempt_processes(self.token, None)

    def runner(self) -> int:
        holder = attempts.Claim.holder(str(self.folder))
        assert holder is not None and holder[0] == attempts.RUNNER
        return holder[1].pid

    def kill_runner(self) -> None:
        pid = self.runner()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: gone(pid))

    def prepare(self) -> None:
        """What a daemon leaves that is killed before it starts the runner."""
        self.daemon()._prepare(self.plan("touch", "ran"))

    def start_runner(self) -> subprocess.Popen[bytes]:
        command = [*PYTHON[:3], runner.__file__, str(self.folder)]
        return subprocess.Popen(command, env={"RADRM_TOKEN": self.token})


SLEEPER = ("sh", "-c", "touch ready; exec sleep 1000")


def remove_group(launch: dict[str, Any]) -> None:
    if launch["cgroup"] is not None:
        wait_until(lambda: cgroups.remove(launch["cgroup"]))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path)
    yield host
    wait_until(lambda: not kill_tree(host.token, None))
    if host.launchers:
        host.launchers[-1].close()
    for folder in host.state.glob("attempts/*"):
        fields, _ = attempts.read_record(str(folder), attempts.LAUNCH)
        if fields is not None:
            remove_group(fields)


def next_of(daemon: Launcher, serial: int = SERIAL) -> Started | Ended | Lost:
    """As the daemon's loop does: wait for a descriptor, then ask."""
    found = None
    while found is None:
        fds = daemon.fds()
        readable, _, _ = select.select(list(fds), [], [], 30)
        assert readable, "nothing woke us"
        assert {fds[fd] for fd in readable} == {serial}
        found = daemon.poll(serial)
    return found


def end_of(daemon: Launcher) -> Ended | Lost:
    found = next_of(daemon)
    return next_of(daemon) if isinstance(found, Started) else found


# ------------------------------------------------------------------ one daemon


def test_an_ordinary_life(host: Host) -> None:
    clock = Clock()
    daemon = host.daemon(clock)
    before = clock.now()
    daemon.launch(host.plan("sh", "-c", "echo $$ $RADRM_TOKEN; exit 5"))
    started = next_of(daemon)
    assert isinstance(started, Started)
    ended = next_of(daemon)
    assert isinstance(ended, Ended)
    assert (ended.exit, ended.never_started) == (Exit(code=5), None)
    assert ended.started is not None and ended.started.pid == started.pid
    assert before.boot_s <= started.at.boot_s <= ended.at.boot_s <= clock.now().boot_s
    assert (host.cwd / "out").read_text().split() == [str(started.pid), host.token]
    assert daemon.poll(SERIAL) is None
    assert daemon.fds() == {}
    assert daemon.serials() == [SERIAL]
    daemon.forget(SERIAL)
    assert daemon.serials() == []


def test_many_at_once(host: Host) -> None:
    daemon = host.daemon()
    for serial in range(20):
        daemon.launch(host.plan("sh", "-c", f"exit {serial}", serial=serial))
    ends = {}
    while len(ends) < 20:
        fds = daemon.fds()
        for fd in select.select(list(fds), [], [], 30)[0]:
            found = daemon.poll(fds[fd])
            if isinstance(found, Ended):
                ends[fds[fd]] = found.exit.code
    assert ends == {serial: serial for serial in range(20)}
    assert daemon.fds() == {} and daemon.fds() == {}


def test_never_started(host: Host) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan("no-such-program"))
    ended = end_of(daemon)
    assert isinstance(ended, Ended) and ended.exit == Exit()
    assert "no-such-program" in str(ended.never_started)


def test_a_scaled_clock(host: Host) -> None:
    clock = Clock(scale=60.0)
    daemon = host.daemon(clock)
    daemon.launch(host.plan("true", kill_grace_s=90.0))
    launch, _ = attempts.read_record(str(host.folder), attempts.LAUNCH)
    assert launch is not None and launch["kill_grace_s"] == 1.5
    ended = end_of(daemon)
    record, _ = attempts.read_record(str(host.folder), attempts.EXIT)
    assert record is not None and isinstance(ended, Ended)
    assert ended.at.boot_s == clock.at(record["boot_s"]).boot_s


@pytest.mark.parametrize("moment", ["at once", "running"])
@pytest.mark.parametrize(
    ("order", "number"),
    [(Launcher.terminate, signal.SIGTERM), (Launcher.kill, signal.SIGKILL)],
)
def test_ending_one(
    host: Host, order: Callable[[Launcher, int], None], number: int, moment: str
) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan(*SLEEPER))
    if moment == "running":
        host.ready()
    order(daemon, SERIAL)
    ended = end_of(daemon)
    assert isinstance(ended, Ended) and ended.exit == Exit(signal=number)
    order(daemon, SERIAL)
    assert not host.processes()


def test_a_job_cannot_hold_its_runner_up(host: Host) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan("sh", "-c", "kill -STOP $PPID; touch ready; exec sleep 1000"))
    host.ready()
    daemon.kill(SERIAL)
    ended = end_of(daemon)
    assert isinstance(ended, Ended) and ended.exit == Exit(signal=signal.SIGKILL)


def test_whose_process(host: Host) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan(*SLEEPER))
    started = next_of(daemon)
    assert isinstance(started, Started)
    assert daemon.owner_of(started.pid) == (3, 2)
    assert daemon.owner_of(os.getpid()) is None
    daemon.kill(SERIAL)
    end_of(daemon)
    assert daemon.owner_of(started.pid) is None


# ------------------------------------------------------------------ the runner is killed


@pytest.mark.parametrize("grouped", [True, False], ids=["group", "no group"])
def test_a_killed_runner_loses_the_attempt(
    host: Host, monkeypatch: pytest.MonkeyPatch, grouped: bool
) -> None:
    if not grouped:
        monkeypatch.setattr(cgroups, "place", lambda _: None)
    daemon = host.daemon()
    daemon.launch(host.plan("sh", "-c", "setsid sleep 1000 & touch ready; exec sleep 1000"))
    started = next_of(daemon)
    host.ready()
    os.kill(host.runner(), signal.SIGKILL)
    lost = next_of(daemon)
    assert isinstance(lost, Lost) and isinstance(started, Started) and lost.started is not None
    assert (lost.reason, lost.began) == ("its runner was killed while it ran", True)
    assert lost.started.pid == started.pid
    assert not host.processes()
    assert daemon.fds() == {} == daemon.fds()


def test_a_job_that_kills_its_runner(host: Host) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan("sh", "-c", "kill -9 $PPID; exec sleep 1000"))
    lost = end_of(daemon)
    assert isinstance(lost, Lost) and lost.began
    assert not host.processes()


def test_what_was_seen_on_a_device_dies_with_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where there is no group, and it left session, parent and environment behind."""
    monkeypatch.setattr(cgroups, "place", lambda _: None)
    daemon = host.daemon()
    pid_file = host.cwd / "pid"
    daemon.launch(host.plan(*PYTHON, f"{ESCAPED}\nescape(); time.sleep(1000)", str(pid_file)))
    escaped = read_pid(pid_file)
    wait_until(lambda: daemon.owner_of(escaped))
    assert token_of(escaped) is None
    os.kill(host.runner(), signal.SIGKILL)
    assert isinstance(end_of(daemon), Lost)
    assert gone(escaped)


def test_who_escapes_everything_but_the_group(host: Host) -> None:
    daemon = host.daemon()
    pid_file = host.cwd / "pid"
    daemon.launch(host.plan(*PYTHON, f"{ESCAPED}\nescape(); time.sleep(1000)", str(pid_file)))
    escaped = read_pid(pid_file)
    launch, _ = attempts.read_record(str(host.folder), attempts.LAUNCH)
    if launch is None or launch["cgroup"] is None or not cgroups.processes(launch["cgroup"]):
        os.kill(escaped, signal.SIGKILL)
        pytest.skip("no control group can be made here")
    os.kill(host.runner(), signal.SIGKILL)
    assert isinstance(end_of(daemon), Lost)
    assert gone(escaped)


@pytest.mark.parametrize("order", [Launcher.terminate, Launcher.kill])
def test_orders_reach_the_tree_of_a_dead_runner(
    host: Host, order: Callable[[Launcher, int], None]
) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan(*SLEEPER))
    assert isinstance(next_of(daemon), Started)
    host.kill_runner()
    order(daemon, SERIAL)
    assert isinstance(next_of(daemon), Lost)
    assert not host.processes()


def test_a_runner_that_dies_before_its_claim(host: Host) -> None:
    """While another process tests the lock, so that it cannot get there."""
    daemon = host.daemon()
    host.state.joinpath("attempts").mkdir()
    spawn = daemon._spawn

    def spawn_held_up(live: Any) -> None:
        lock = attempts.take_lock(live.evidence.folder)
        spawn(live)
        os.kill(live.child, signal.SIGKILL)
        os.close(lock)

    daemon._spawn = spawn_held_up  # type: ignore[method-assign]
    daemon.launch(host.plan("touch", "ran"))
    assert end_of(daemon) == Lost("its runner was killed before it could begin", False, None)
    assert not (host.cwd / "ran").exists()


def test_survivors_of_a_kill_are_waited_for(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process stuck in the kernel: the devices are not free before it is gone."""
    daemon = host.daemon()
    daemon.launch(host.plan(*SLEEPER))
    started = next_of(daemon)
    assert isinstance(started, Started)
    stuck = subprocess.Popen([*PYTHON, SLEEP])

    tried = threading.Event()

    def resisting(*args: Any, **more: Any) -> set[int]:
        kill_tree(*args, **more)
        tried.set()
        return {stuck.pid} if stuck.poll() is None else set()

    monkeypatch.setattr(launcher, "kill_tree", resisting)
    os.kill(host.runner(), signal.SIGKILL)
    while not tried.is_set() or select.select(list(daemon.fds()), [], [], 0)[0]:
        assert daemon.poll(SERIAL) is None
    assert daemon.poll(SERIAL) is None
    stuck.kill()
    assert isinstance(next_of(daemon), Lost)
    stuck.wait()


def test_what_is_long_to_kill_does_not_hold_the_daemon(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a tree of thousands of processes."""
    daemon = host.daemon()
    daemon.launch(host.plan(*SLEEPER))
    assert isinstance(next_of(daemon), Started)
    may_go_on = threading.Event()

    def slow(*args: Any, **more: Any) -> set[int]:
        assert may_go_on.wait(60)
        return kill_tree(*args, **more)

    monkeypatch.setattr(launcher, "kill_tree", slow)
    os.kill(host.runner(), signal.SIGKILL)
    (fd,) = daemon.fds()
    assert select.select([fd], [], [], 30)[0]
    for _ in range(5):
        assert daemon.poll(SERIAL) is None
        daemon.kill(SERIAL)
        assert not select.select(list(daemon.fds()), [], [], 0)[0], "there is nothing to do yet"
    may_go_on.set()
    assert isinstance(next_of(daemon), Lost)
    assert not host.processes()


# ------------------------------------------------------------------ the next daemon


def test_adopting_one_that_runs(host: Host) -> None:
    first = host.daemon()
    first.launch(
        host.plan("sh", "-c", "touch ready; until test -e go; do sleep 0.01; done; exit 9")
    )
    started = next_of(first)
    second = host.daemon()
    found = second.adopt(SERIAL, 3, 2)
    assert isinstance(found, Running) and found.started is not None
    assert isinstance(started, Started) and found.started.pid == started.pid
    assert second.poll(SERIAL) is None
    assert second.owner_of(started.pid) == (3, 2)
    (host.cwd / "go").touch()
    ended = next_of(second)
    assert isinstance(ended, Ended) and ended.exit == Exit(code=9)


@pytest.mark.parametrize("order", [Launcher.terminate, Launcher.kill])
def test_an_adopted_one_can_be_ended(host: Host, order: Callable[[Launcher, int], None]) -> None:
    host.daemon().launch(host.plan(*SLEEPER))
    host.ready()
    second = host.daemon()
    assert isinstance(second.adopt(SERIAL, 3, 2), Running)
    order(second, SERIAL)
    assert isinstance(next_of(second), Ended)


def test_adopting_one_that_has_ended(host: Host) -> None:
    host.daemon().launch(host.plan("sh", "-c", "kill -11 $$"))
    wait_until((host.folder / "exit.json").exists)
    for _ in range(2):
        found = host.daemon().adopt(SERIAL, 3, 2)
        assert isinstance(found, Ended) and found.exit == Exit(signal=11)
        assert found.started is not None


def test_adopting_one_whose_runner_was_killed_meanwhile(host: Host) -> None:
    first = host.daemon()
    first.launch(host.plan(*SLEEPER))
    host.ready()
    host.kill_runner()
    assert host.processes()
    second = host.daemon()
    lost = second.adopt(SERIAL, 3, 2)
    assert isinstance(lost, Lost) and lost.began and lost.started is not None
    assert not host.processes()
    assert second.fds() == {}


def test_adopting_one_that_was_never_made(host: Host) -> None:
    assert host.daemon().adopt(SERIAL, 3, 2) == Void()


def test_the_daemon_takes_the_claim_and_the_runner_stands_down(host: Host) -> None:
    host.prepare()
    assert host.daemon().adopt(SERIAL, 3, 2) == Void()
    assert host.start_runner().wait() == 0
    assert not list(host.cwd.iterdir())
    third = host.daemon()
    assert third.adopt(SERIAL, 3, 2) == Void(), "and that stays so"
    third.forget(SERIAL)
    assert not host.folder.exists()
    late = host.start_runner()
    assert late.wait() != 0
    assert not host.folder.exists() and not list(host.cwd.iterdir())


def test_a_runner_that_loses_its_folder_to_forget(host: Host) -> None:
    """It stood still from its start until the claim was gone with all the rest."""
    host.prepare()
    daemon = host.daemon()
    assert daemon.adopt(SERIAL, 3, 2) == Void()
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
    assert daemon.adopt(SERIAL, 3, 2) == Running(None)
    assert daemon.poll(SERIAL) is None
    stand_in.kill()
    assert next_of(daemon) == Lost("its runner was killed before it could begin", False, None)


def test_a_start_that_is_seen_later(host: Host, stand_in: subprocess.Popen[bytes]) -> None:
    host.prepare()
    who = identify(stand_in.pid)
    assert who is not None
    claim(host, who)
    daemon = host.daemon()
    assert daemon.adopt(SERIAL, 3, 2) == Running(None)
    write_start(host, who)
    assert isinstance(daemon.poll(SERIAL), Started)
    assert daemon.poll(SERIAL) is None


def write_start(host: Host, who: Identity, **changes: Any) -> None:
    fields = {
        "pid": 2**22 + 1,
        "start_ticks": 1,
        "runner_pid": who.pid,
        "runner_start_ticks": who.start_ticks,
        **attempts.now(),
    }
    attempts.write_record(str(host.folder), attempts.START, fields | changes)


def test_another_boot_is_lost_and_nobody_is_killed(
    host: Host, stand_in: subprocess.Popen[bytes]
) -> None:
    host.prepare()
    who = identify(stand_in.pid)
    assert who is not None
    write_start(host, who, boot_id="another-boot", pid=stand_in.pid, wall_s=1000.0)
    bystander = subprocess.Popen([*PYTHON, SLEEP], env={"RADRM_TOKEN": host.token})
    lost = host.daemon().adopt(SERIAL, 3, 2)
    assert isinstance(lost, Lost) and lost.reason == "the server went down while it ran"
    assert lost.started is not None and lost.started.at.wall_s == 1000.0
    assert stand_in.poll() is None and bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_another_boot_before_the_start(host: Host) -> None:
    host.prepare()
    claim(host, Identity(os.getpid(), 1, "another-boot"))
    lost = host.daemon().adopt(SERIAL, 3, 2)
    assert lost == Lost("the server went down before it could begin", False, None)


def test_a_claim_of_nobody_is_void(host: Host) -> None:
    """Killed between making the claim and writing it, the runner had begun nothing."""
    host.prepare()
    (host.folder / "claim").touch()
    assert host.daemon().adopt(SERIAL, 3, 2) == Void()
    assert host.start_runner().wait() == 0
    assert not list(host.cwd.iterdir())


def test_a_claim_being_written_is_waited_for(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.prepare()
    (host.folder / "claim").touch()
    lock = attempts.take_lock(str(host.folder))
    monkeypatch.setattr(evidence, "_CLAIM_PATIENCE_S", 0.0)
    with pytest.raises(StoreError, match="does not say who it is"):
        host.daemon().adopt(SERIAL, 3, 2)
    os.close(lock)
    assert host.daemon().adopt(SERIAL, 3, 2) == Void()


NO_TIMES = [(word, value) for word in ("boot_s", "wall_s") for value in ("NaN", "-1", "1e400")]


@pytest.mark.parametrize("word, value", NO_TIMES)
def test_a_time_that_is_none_is_damage(tmp_path: Path, word: str, value: str) -> None:
    attempts.write_record(str(tmp_path), attempts.EXIT, {**attempts.NO_END, **attempts.now()})
    path = tmp_path / attempts.EXIT
    record = json.loads(path.read_text())
    path.write_text(path.read_text().replace(f'"{word}": {record[word]}', f'"{word}": {value}'))
    found, damage = attempts.read_record(str(tmp_path), attempts.EXIT)
    assert found is None and damage == f"exit.json is damaged: no usable '{word}'"


def test_an_exit_of_another_boot_has_its_own_time(host: Host) -> None:
    host.prepare()
    who = Identity(1, 1, "another-boot")
    write_start(host, who, boot_id="another-boot", boot_s=500.0, wall_s=1000.0)
    end = {**attempts.NO_END, "code": 0, "boot_id": "another-boot", "boot_s": 530.0}
    attempts.write_record(str(host.folder), attempts.EXIT, {**end, "wall_s": 1030.5})
    ended = host.daemon().adopt(SERIAL, 3, 2)
    assert isinstance(ended, Ended) and ended.started is not None
    assert ended.at.wall_s == 1030.5 and ended.at.since(ended.started.at) == 30.0


@pytest.mark.parametrize("text", ["", "{", '{"version": 99}', '{"version": 1, "code": "0"}'])
def test_a_damaged_exit_record_is_not_an_exit(host: Host, text: str) -> None:
    host.daemon().launch(host.plan("true"))
    wait_until((host.folder / "exit.json").exists)
    (host.folder / "exit.json").write_text(text)
    second = host.daemon()
    found = second.adopt(SERIAL, 3, 2)
    lost = next_of(second) if isinstance(found, Running) else found
    assert isinstance(lost, Lost) and lost.began and "exit.json" in lost.reason


RECORDS: dict[str, dict[str, Any]] = {
    "launch.json": {
        "job_id": 3,
        "attempt": 2,
        "token": "of an attempt that has ended",
        "argv": ["true"],
        "script": None,
        "interpreter": None,
        "cwd": "/",
        "environment": {"A": "1"},
        "stdout": "/o",
        "stderr": "/e",
        "umask": 18,
        "uid": None,
        "gid": None,
        "user": "ann",
        "kill_grace_s": 2.0,
        "cgroup": None,
    },
    "start.json": {
        "pid": 2**22 - 1,
        "start_ticks": 1,
        "runner_pid": 2**22 - 2,
        "runner_start_ticks": 1,
        **attempts.now(),
    },
    "exit.json": {**attempts.NO_END, "code": 0, **attempts.now()},
    "claim": {"by": "runner", "pid": 2**22 - 2, "start_ticks": 1, "boot_id": "of another boot"},
}
NUMBERS = [True, -1, 0, 2**31, 2**63, 10**400, -1e308, float("nan"), float("inf")]
ODD = st.sampled_from([None, "", "\0", "x", [], [None], {}, {"A": 1}, *NUMBERS])


@settings(max_examples=100, derandomize=True)
@given(
    damage=st.sampled_from([(n, key) for n, fields in RECORDS.items() for key in fields]),
    value=ODD,
    missing=st.sets(st.sampled_from(list(RECORDS)), max_size=2),
    version=st.sampled_from([1, 1, 1, True, 2, None]),
)
def test_whatever_stands_in_an_attempts_records_the_daemon_can_tell(
    tmp_path_factory: pytest.TempPathFactory,
    damage: tuple[str, str],
    value: object,
    missing: set[str],
    version: object,
) -> None:
    """Every answer can be stored, or it is one line."""
    state = tmp_path_factory.mktemp("state")
    folder = state / "attempts" / str(SERIAL)
    folder.mkdir(parents=True)
    for name, fields in RECORDS.items():
        if name not in missing:
            changed = {**fields, damage[1]: value} if name == damage[0] else fields
            given_version = version if name == damage[0] else 1
            (folder / name).write_text(json.dumps({"version": given_version, **changed}))
    daemon = Launcher(state, Clock())
    try:
        found = daemon.adopt(SERIAL, 3, 2)
        msgspec.json.encode(found)
    except StoreError as error:
        assert "\n" not in str(error)
    daemon.close()
    daemon.forget(SERIAL)
    assert not folder.exists()


@pytest.mark.parametrize("name", ["start.json", "exit.json", "claim", "lock"])
def test_a_folder_in_the_place_of_a_record_is_said(host: Host, name: str) -> None:
    host.prepare()
    (host.folder / name).unlink(missing_ok=True)
    (host.folder / name).mkdir()
    try:
        host.daemon().adopt(SERIAL, 3, 2)
    except StoreError as error:
        assert "\n" not in str(error)


def test_a_record_without_end_is_not_read_whole(host: Host) -> None:
    host.prepare()
    (host.folder / "exit.json").touch()
    os.truncate(host.folder / "exit.json", 2**40)
    record, wrong = attempts.read_record(str(host.folder), "exit.json")
    assert record is None and wrong == "exit.json is damaged: it is longer than 64 MiB"


def test_damaged_start_and_claim_are_lost_never_void(host: Host) -> None:
    host.daemon().launch(host.plan(*SLEEPER))
    host.ready()
    host.kill_runner()
    for name in ("start.json", "claim"):
        (host.folder / name).write_text("{")
    lost = host.daemon().adopt(SERIAL, 3, 2)
    assert isinstance(lost, Lost) and lost.began and "start.json is damaged" in lost.reason
    assert not host.processes()


def test_without_a_launch_record_the_tree_is_found_by_its_main_process(host: Host) -> None:
    first = host.daemon()
    first.launch(host.plan("sh", "-c", "sleep 1000 & touch ready; sleep 1000"))
    host.ready()
    host.kill_runner()
    launch, _ = attempts.read_record(str(host.folder), "launch.json")
    (host.folder / "launch.json").write_text("{")
    assert isinstance(host.daemon().adopt(SERIAL, 3, 2), Lost)
    assert not host.processes()
    assert launch is not None
    remove_group(launch)


# ------------------------------------------------------------------ launching that fails


def test_a_state_folder_that_cannot_be_used(host: Host) -> None:
    (host.state / "attempts").touch()
    with pytest.raises(StoreError, match="attempt 7 cannot be launched"):
        host.daemon().launch(host.plan("true"))


def test_a_folder_that_is_there_is_never_touched(host: Host) -> None:
    host.prepare()
    with pytest.raises(StoreError, match="File exists"):
        host.daemon().launch(host.plan("true"))
    assert (host.folder / "launch.json").exists()


@pytest.mark.parametrize("step", ["write_record", "posix_spawn"])
def test_a_launch_that_fails_leaves_nothing(
    host: Host, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(attempts if step == "write_record" else launcher.os, step, full)
    daemon = host.daemon()
    with pytest.raises(StoreError, match="No space left on device"):
        daemon.launch(host.plan("true"))
    assert not host.folder.exists()
    assert daemon.fds() == {} and daemon.poll(SERIAL) is None


def test_no_descriptor_for_the_runner(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    daemon = host.daemon()
    with monkeypatch.context() as patch:
        patch.setattr(launcher.os, "pidfd_open", none_left)
        daemon.launch(host.plan("touch", "ran"))
    assert end_of(daemon) == Lost("its runner was killed before it could begin", False, None)


def test_only_root_runs_jobs_of_others(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Refused, match="this daemon is not root"):
        host.daemon().launch(host.plan("true", uid=1001, gid=1001, user="ann"))


def test_forgetting(host: Host) -> None:
    daemon = host.daemon(keep=True)
    daemon.launch(host.plan(*SLEEPER))
    with pytest.raises(ValueError, match="has not ended"):
        daemon.forget(SERIAL)
    daemon.kill(SERIAL)
    end_of(daemon)
    daemon.forget(SERIAL)
    assert (host.folder / "exit.json").exists()
    host.daemon().forget(SERIAL)
    assert not host.folder.exists()
    host.daemon().forget(SERIAL)


def test_a_descriptor_stays_open_until_a_selector_had_time_to_let_go(host: Host) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan("true"))
    before = set(daemon.fds())
    end_of(daemon)
    assert daemon.fds() == {}
    assert any(map(is_open, before))
    daemon.fds()
    assert not any(map(is_open, before))


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


# ------------------------------------------------------------------ kill -9 at any moment

MOMENTS_S = [n * 0.004 for n in range(24)]
"""From before a runner has begun to after its job has."""
ONCE = ("sh", "-c", "echo ran >>ran; touch ready; until test -e go; do sleep 0.01; done; exit 6")


@pytest.mark.parametrize("moment_s", MOMENTS_S)
def test_a_runner_killed_at_any_moment(host: Host, moment_s: float) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan(*ONCE))
    (pid,) = {live.child for live in daemon._live.values()}
    assert pid is not None
    time.sleep(moment_s)  # not to wait for anything: the moment is the test
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: gone(pid))
    found = host.daemon().adopt(SERIAL, 3, 2)
    assert isinstance(found, Void | Lost)
    assert not host.processes()
    ran = (host.cwd / "ran").exists()
    assert not ran or (isinstance(found, Lost) and found.began)
    assert not (isinstance(found, Void) and (host.folder / "start.json").exists())


DAEMON = """
import sys
from radrm.host.clock import Clock
from radrm.host.attempts.launcher import Launcher
from tests.host.test_launcher import ONCE, Host
from pathlib import Path
host = Host.__new__(Host)
place = Path(sys.argv[1])
host.cwd, host.token = place / "work", sys.argv[2]
launcher = Launcher(place / "state", Clock())
sys.stdout.write("r")
sys.stdout.flush()
launcher.launch(host.plan(*ONCE))
sys.stdin.read()
"""


@pytest.mark.parametrize("moment_s", MOMENTS_S)
def test_a_daemon_killed_at_any_moment(host: Host, moment_s: float) -> None:
    """The job runs once or not at all, and what is said of it is true."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", DAEMON, str(host.cwd.parent), host.token]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
    ) as first:
        assert first.stdout is not None and first.stdout.read(1) == b"r"
        time.sleep(moment_s)  # not to wait for anything: the moment is the test
        first.kill()
    second = host.daemon()
    found = second.adopt(SERIAL, 3, 2)
    if isinstance(found, Void):
        wait_until(lambda: not host.processes())  # the runner, standing down
        assert not (host.cwd / "ran").exists()
        return
    assert isinstance(found, Running)
    (host.cwd / "go").touch()
    while not isinstance(end := second.poll(SERIAL), Ended | Lost):
        select.select(list(second.fds()), [], [], 0.05)
    assert isinstance(end, Ended) and end.exit == Exit(code=6)
    assert (host.cwd / "ran").read_text() == "ran\n"
