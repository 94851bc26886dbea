"""Runners by fork: what one has is what a new interpreter would have, and nothing depends on the
forker."""

from __future__ import annotations

import errno
import os
import resource
import select
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from radrm.core.records import Exit
from radrm.errors import RadrmError
from radrm.host.attempts import forker as process
from radrm.host.attempts import forking
from radrm.host.attempts.evidence import Ended, Started, Void
from radrm.host.attempts.forking import Forker
from radrm.host.attempts.launcher import Launcher
from radrm.host.processes.procfs import read_stat, token_of
from radrm.host.processes.tree import has_signal
from tests.host.attempts.host import SERIAL, SLEEPER, Host, end_of, next_of, ready_forker
from tests.host.processes.programs import gone
from tests.paths import REPOSITORY
from tests.waiting import wait_until


@pytest.fixture
def forker() -> Iterator[Forker]:
    """A forker of this test alone."""
    found = Forker("(of one test)")
    wait_until(found.is_ready, "the forker")
    yield found
    found.close()


def launcher(host: Host, forker: Forker) -> Launcher:
    host.forks = False
    found = host.daemon()
    found._forker = forker
    return found


def spare_of(forker: Forker) -> int:
    """The runner that waits for the next start."""

    def only() -> int:
        pids = Path(f"/proc/{forker.pid}/task/{forker.pid}/children").read_text().split()
        return int(pids[0]) if len(pids) == 1 else 0

    return wait_until(only, "the spare")


def parent_of(pid: int) -> int:
    found = read_stat(pid)
    return found.parent if found is not None else 0


def ran_once(host: Host) -> bool:
    return (host.cwd / "ran").read_text() == "ran\n"


ONCE = ("sh", "-c", "echo ran >>ran")


# ------------------------------------------------------------------ what a runner has

SIGNALS = ("SigBlk", "SigIgn", "SigCgt")
RIGHTS = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs")
OTHERS = ("Umask", "Seccomp", "Cpus_allowed_list", "Mems_allowed_list")


def shown(host: Host, forks: bool, serial: int) -> dict[str, Any]:
    """What the kernel shows of a runner that has begun its job."""
    host.forks = forks
    daemon = host.daemon()
    its = {"serial": serial, "token": f"{host.token}-{serial}"}
    daemon.launch(host.plan(*SLEEPER, **its))
    assert isinstance(next_of(daemon, serial), Started)
    runner = daemon._live[serial].runner
    assert runner is not None
    folder = Path("/proc", str(runner.pid))

    def still() -> bool:  # it waits for signals
        threads, groups = list((folder / "task").iterdir()), (folder / "cgroup").read_text()
        waits = not has_signal(int(folder.name), signal.SIGTERM, b"SigBlk")
        return len(threads) == 1 and f"radrm-{serial}-" not in groups and waits

    wait_until(still, "the runner to wait")
    status = dict(line.split(":\t") for line in (folder / "status").read_text().splitlines())
    found = read_stat(runner.pid)
    assert found is not None
    fds = {each.name: os.readlink(each) for each in (folder / "fd").iterdir()}
    assert fds.pop("1").startswith(("socket:", "pipe:")), "where the daemon listens"
    state = {
        "status": [status[key].strip() for key in (*SIGNALS, *RIGHTS, *OTHERS)],
        "limits": (folder / "limits").read_text(),
        "oom": (folder / "oom_score_adj").read_text(),
        "nice": os.getpriority(os.PRIO_PROCESS, runner.pid),
        "scheduler": os.sched_getscheduler(runner.pid),
        "namespaces": {each.name: os.readlink(each) for each in (folder / "ns").iterdir()},
        "groups": (folder / "cgroup").read_text(),
        "cwd": os.readlink(folder / "cwd"),
        "root": os.readlink(folder / "root"),
        "environ": (folder / "environ")
        .read_bytes()
        .rstrip(b"\0")
        .replace(its["token"].encode(), b"TOKEN"),
        "leads": (found.session, found.group) == (runner.pid, runner.pid),
        "open": sorted(path for path in fds.values() if not path.startswith("socket")),
        "sockets": sum(path.startswith("socket") for path in fds.values()),
    }
    assert token_of(runner.pid) == its["token"]
    daemon.kill(serial)
    next_of(daemon, serial)
    return state


def test_a_forked_runner_has_what_a_new_interpreter_has(host: Host) -> None:
    forked, started = shown(host, True, 8), shown(host, False, 9)
    for state, serial in ((forked, "/8/"), (started, "/9/")):
        state["open"] = [path.replace(serial, "/N/") for path in state["open"]]
    assert forked == started


def test_ps_names_forker_and_runner(host: Host) -> None:
    attempts = str(host.folder.parent)
    forker = Forker(attempts)
    wait_until(forker.is_ready, "the forker")
    daemon = launcher(host, forker)
    daemon.launch(host.plan(*SLEEPER))
    assert isinstance(next_of(daemon), Started)
    names = {}
    for pid in (host.runner(), parent_of(host.runner())):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()
        names[Path(f"/proc/{pid}/comm").read_text().strip()] = words.partition(" ")[2]
    assert names == {"radrm-runner": str(host.folder), "radrm-forker": attempts}
    forker.close()


def test_an_environment_that_does_not_fit_is_run_by_a_new_interpreter(host: Host) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan(*ONCE, token="t" * 600))
    assert isinstance(end_of(daemon), Ended) and ran_once(host)


def test_an_ended_runner_leaves_no_zombie(host: Host, forker: Forker) -> None:
    daemon = launcher(host, forker)
    daemon.launch(host.plan(*ONCE))
    runner = daemon._live[SERIAL].runner
    assert runner is not None and isinstance(end_of(daemon), Ended)
    wait_until(lambda: not os.path.exists(f"/proc/{runner.pid}"), "it to be reaped")


def test_many_starts_leave_nothing(forker: Forker) -> None:
    def figures() -> tuple[int, int]:
        return len(os.listdir(f"/proc/{forker.pid}/fd")), len(os.listdir("/proc/self/fd"))

    spare_of(forker)
    before = figures()
    for _ in range(200):
        mine, its = socket.socketpair()
        with mine, its:
            found = forker.fork("/nowhere", "token", its.fileno(), None)
        assert found is not None
        os.close(found.pidfd)
    spare_of(forker)
    wait_until(lambda: figures() == before, "what was there before")


# ------------------------------------------------------------------ the spare


def test_a_start_takes_the_runner_that_waits(host: Host, forker: Forker) -> None:
    spare = spare_of(forker)
    daemon = launcher(host, forker)
    daemon.launch(host.plan(*ONCE))
    assert isinstance(end_of(daemon), Ended) and ran_once(host)
    assert host.runner() == spare != spare_of(forker)


@pytest.mark.parametrize("reaped", [False, True])
def test_a_spare_that_was_killed_costs_nothing(host: Host, forker: Forker, reaped: bool) -> None:
    spare = spare_of(forker)
    os.kill(forker.pid, signal.SIGCONT if reaped else signal.SIGSTOP)
    os.kill(spare, signal.SIGKILL)
    wait_until(lambda: spare_of(forker) != spare if reaped else gone(spare))
    os.kill(forker.pid, signal.SIGCONT)
    daemon = launcher(host, forker)
    daemon.launch(host.plan(*ONCE))
    assert isinstance(end_of(daemon), Ended) and ran_once(host)


def test_a_spare_ends_with_its_forker(forker: Forker) -> None:
    spare = spare_of(forker)
    os.kill(forker.pid, signal.SIGKILL)
    wait_until(lambda: gone(spare))


# ------------------------------------------------------------------ without the forker


def test_a_runner_outlives_the_forker(host: Host, forker: Forker) -> None:
    daemon = launcher(host, forker)
    daemon.launch(host.plan("sh", "-c", "until test -e go; do sleep 0.01; done; exit 6"))
    assert isinstance(next_of(daemon), Started)
    os.kill(forker.pid, signal.SIGKILL)
    wait_until(lambda: gone(forker.pid))
    (host.cwd / "go").touch()
    ended = end_of(daemon)
    assert isinstance(ended, Ended) and ended.exit == Exit(code=6)


def test_the_next_start_makes_a_new_forker(host: Host, forker: Forker) -> None:
    first = forker.pid
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: gone(first))
    daemon = launcher(host, forker)
    daemon.launch(host.plan(*ONCE))
    assert isinstance(end_of(daemon), Ended) and ran_once(host)
    wait_until(forker.is_ready, "the next forker")
    assert forker.pid != first


def test_one_that_stands_still_is_waited_for_a_moment(
    host: Host, forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forking, "PATIENCE_S", 0.01)
    first = forker.pid
    os.kill(first, signal.SIGSTOP)
    daemon = launcher(host, forker)
    daemon.launch(host.plan(*ONCE))
    assert isinstance(end_of(daemon), Ended) and ran_once(host)
    assert gone(first) or parent_of(first) == os.getpid()


def test_one_killed_after_the_request_costs_nothing(
    host: Host, forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it has read it, or while it forks."""
    send = forking.send

    def then_killed(*its: Any) -> None:
        send(*its)
        os.kill(forker.pid, signal.SIGKILL)

    monkeypatch.setattr(forking, "send", then_killed)
    daemon = launcher(host, forker)
    daemon.launch(host.plan(*ONCE))
    assert isinstance(end_of(daemon), Ended) and ran_once(host)


def test_a_runner_whose_answer_came_too_late_ends_without_a_trace(
    host: Host, forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was forked, and another one was started meanwhile."""
    late: list[int] = []
    receive = forking.receive

    def too_late(by: socket.socket) -> Any:
        _, fds = receive(by)
        late.extend(fds)
        raise TimeoutError

    monkeypatch.setattr(forking, "receive", too_late)
    daemon = launcher(host, forker)
    daemon.launch(host.plan(*ONCE))
    (pidfd,) = late
    assert select.select([pidfd], [], [], 30)[0], "it ends"
    os.close(pidfd)
    assert isinstance(end_of(daemon), Ended) and ran_once(host)


def test_a_daemon_that_dies_before_its_word_leaves_a_void_launch(
    host: Host, forker: Forker
) -> None:
    host.prepare()
    mine, its = socket.socketpair()
    with its:
        found = forker.fork(str(host.folder), host.token, its.fileno(), None)
    assert found is not None
    mine.close()
    assert select.select([found.pidfd], [], [], 30)[0]
    os.close(found.pidfd)
    assert sorted(os.listdir(host.folder)) == ["launch.json"]
    assert isinstance(host.daemon().adopt(SERIAL, 3), Void)


def test_it_ends_with_its_daemon(forker: Forker) -> None:
    assert forker._socket is not None
    forker._socket.close()
    wait_until(lambda: gone(forker.pid) or read_stat(forker.pid).dead)  # type: ignore[union-attr]


def test_an_upgrade_is_run_and_not_what_was_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "radrm"
    for part in ("core", "host"):
        shutil.copytree(REPOSITORY / "radrm" / part, code / part)
    for file in (REPOSITORY / "radrm").glob("*.py"):
        shutil.copy2(file, code)
    monkeypatch.setattr(process, "__file__", str(code / "host" / "attempts" / "forker.py"))
    forker = Forker("(of one test)")
    wait_until(forker.is_ready, "the forker")
    first = forker.pid
    (code / "host" / "attempts" / "tails.py").touch()
    mine, its = socket.socketpair()
    with mine, its:
        assert forker.fork("/nowhere", "token", its.fileno(), None) is None
    wait_until(forker.is_ready, "the next forker")
    assert forker.pid != first
    forker.close()


def test_one_that_never_gets_ready_rests_and_is_tried_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = process.__file__
    monkeypatch.setattr(process, "__file__", "/nowhere/forker.py")
    forker, pids = Forker("(of one test)"), set()
    for _ in range(200):
        assert not forker.is_ready()
        pids.add(forker.pid)
        if forker.pid:
            wait_until(lambda: gone(forker.pid) or read_stat(forker.pid).dead)  # type: ignore[union-attr]
    assert 0 < len(pids - {0}) <= 3
    daemon = launcher(host, forker)
    daemon.launch(host.plan(*ONCE))
    assert isinstance(end_of(daemon), Ended) and ran_once(host)
    monkeypatch.setattr(process, "__file__", sound)
    later_s = monotonic() + forking.REST_S
    monkeypatch.setattr(forking, "monotonic", lambda: later_s)
    wait_until(forker.is_ready, "the forker")
    forker.close()
    assert not forker.is_ready()


def test_one_that_may_open_no_file_says_so(host: Host, forker: Forker) -> None:
    resource.prlimit(forker.pid, resource.RLIMIT_NOFILE, (7, 7))
    daemon = launcher(host, forker)
    with pytest.raises(RadrmError, match=os.strerror(errno.EMFILE)):
        daemon.launch(host.plan(*ONCE))
    assert not host.folder.exists() and not daemon.live
    assert not (host.cwd / "ran").exists()


def test_a_bomb_of_starts(host: Host) -> None:
    """All jobs run, each once; the last ones while the forker is killed again and again."""
    daemon, forker = host.daemon(), ready_forker()
    for serial in range(100, 140):
        out = str(host.cwd / str(serial))
        daemon.launch(host.plan("echo", str(serial), serial=serial, stdout=out))
        if serial >= 120 and serial % 5 == 0 and forker.pid:
            os.kill(forker.pid, signal.SIGKILL)
    left = set(daemon.live)
    while left:
        for serial in {s for s in left if isinstance(daemon.poll(s), Ended)}:
            left.discard(serial)
        if left:
            assert select.select(list(daemon.fds()), [], [], 30)[0]
    for serial in range(100, 140):
        assert (host.cwd / str(serial)).read_text() == f"{serial}\n"
