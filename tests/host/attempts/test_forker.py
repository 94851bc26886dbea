"""Runners by fork: what one has is what a new interpreter would have, and nothing depends on the
forker."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from radrm.core.records import Exit
from radrm.errors import RadrmError, StoreError
from radrm.host.attempts import forker as process
from radrm.host.attempts import forking
from radrm.host.attempts.evidence import Ended, Lost, Started, Void
from radrm.host.attempts.forking import Forker, Runner
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


def taken(forker: Forker) -> Runner:
    """A runner that waits for orders."""
    found = forker.take()
    assert found is not None
    return found


def children_of(forker: Forker) -> set[int]:
    """Its runners."""
    path = Path(f"/proc/{forker.pid}/task/{forker.pid}/children")
    return {int(pid) for pid in path.read_text().split()}


def ended_in(daemon: Launcher, serial: int) -> Ended:
    found = daemon.poll(serial)
    while not isinstance(found, Ended):
        if found is None:
            assert select.select(list(daemon.fds()), [], [], 60)[0]
        found = daemon.poll(serial)
    return found


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
    daemon.close()
    wait_until(lambda: not os.path.exists(f"/proc/{runner.pid}"), "it to be reaped")


def test_many_starts_leave_nothing(forker: Forker) -> None:
    def figures() -> tuple[int, int]:
        return len(os.listdir(f"/proc/{forker.pid}/fd")), len(os.listdir("/proc/self/fd"))

    def one_left() -> tuple[int, int] | None:
        return figures() if len(children_of(forker)) == 1 else None

    taken(forker).close()
    before = wait_until(one_left, "the spare")
    for _ in range(200):
        taken(forker).close()
    wait_until(lambda: one_left() == before, "what was there before")


# ------------------------------------------------------------------ the spare


def test_a_start_takes_the_runner_that_waits(host: Host, forker: Forker) -> None:
    spare = wait_until(lambda: children_of(forker), "the spare")
    daemon = launcher(host, forker)
    daemon.launch(host.plan(*ONCE))
    assert isinstance(end_of(daemon), Ended) and ran_once(host)
    assert {host.runner()} <= spare


@pytest.mark.parametrize("reaped", [False, True])
def test_a_spare_that_was_killed_costs_nothing(host: Host, forker: Forker, reaped: bool) -> None:
    spare = wait_until(lambda: children_of(forker), "the spare")
    os.kill(forker.pid, signal.SIGCONT if reaped else signal.SIGSTOP)
    for pid in spare:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not spare & children_of(forker) if reaped else all(map(gone, spare)))
    os.kill(forker.pid, signal.SIGCONT)
    daemon = launcher(host, forker)
    daemon.launch(host.plan(*ONCE))
    assert isinstance(end_of(daemon), Ended) and ran_once(host)


def test_a_spare_outlives_its_forker_and_ends_when_nobody_can_order_it(forker: Forker) -> None:
    spare = taken(forker)
    os.kill(forker.pid, signal.SIGKILL)
    wait_until(lambda: gone(forker.pid))
    assert not select.select([spare.pidfd], [], [], 0)[0]
    os.close(spare.orders)
    assert select.select([spare.pidfd], [], [], 60)[0]
    os.close(spare.pidfd)


# ------------------------------------------------------------------ all but the beginning


def held(host: Host) -> bool:
    """Whether a runner has all but the name of its start record."""
    return any(name.startswith(".start.json") for name in os.listdir(host.folder))


def test_a_job_begins_when_all_is_ready_and_is_prepared_meanwhile(host: Host) -> None:
    daemon = host.daemon()

    def ready() -> None:
        wait_until(lambda: held(host), "the runner")
        assert daemon.poll(SERIAL) is None and not (host.cwd / "ran").exists()

    daemon.launch(host.plan(*ONCE), ready)
    assert isinstance(next_of(daemon), Started)
    assert isinstance(next_of(daemon), Ended) and ran_once(host)


@pytest.mark.parametrize("error", [OSError(28, "full"), StoreError("full")])
def test_a_launch_that_does_not_get_ready_leaves_nothing(host: Host, error: Exception) -> None:
    daemon, runners = host.daemon(), list[int]()

    def ready() -> None:
        wait_until(lambda: held(host), "the runner")
        runners.append(host.runner())
        raise error

    with pytest.raises(StoreError, match="full"):
        daemon.launch(host.plan(*ONCE), ready)
    wait_until(lambda: gone(runners[0]))
    assert not host.folder.exists() and not host.processes() and not daemon.live
    assert not (host.cwd / "ran").exists()


def test_a_daemon_that_ends_before_the_job_begins_leaves_a_void_launch(
    host: Host, forker: Forker
) -> None:
    host.prepare()
    spare = taken(forker)
    spare.order(str(host.folder), host.token, None)
    wait_until(lambda: held(host), "the runner")
    os.close(spare.orders)  # as the kernel does it for a killed daemon
    assert select.select([spare.pidfd], [], [], 60)[0]
    os.close(spare.pidfd)
    assert host.daemon().adopt(SERIAL, 3) == Lost(
        "its runner was killed before it could begin", False, None
    )
    assert not (host.cwd / "ran").exists() and not held(host)


# ------------------------------------------------------------------ one attempt after the other


def runners_of(host: Host, daemon: Launcher, late: bool = False, **changes: Any) -> list[int]:
    """The runners of two attempts, the second of which begins when the first one's is free. `late`:
    the word that its end is stored came too late."""
    pids = []
    leaves = ("sh", "-c", "echo a >&2; echo b >other; exit 1")  # something for each look
    environment = {"PATH": os.environ["PATH"], "RADRM_CHECKPOINT_DIR": str(host.cwd)}
    for serial, its in ((8, {}), (9, changes)):
        its = {"serial": serial, "token": f"{host.token}-{serial}", **its}
        daemon.launch(host.plan(*leaves, environment=environment, **its))
        live = daemon._live[serial]
        pids.append(live.runner.pid)
        ended_in(daemon, serial)
        if not late:
            daemon.stored(serial)
        for waiting in daemon._waiting[-1:]:
            assert select.select([waiting.orders], [], [], 60)[0]
            assert token_of(waiting.identity.pid) is None
        daemon.stored(serial)
    return pids


@pytest.mark.parametrize("late", [False, True])
def test_a_runner_runs_one_attempt_after_the_other_of_a_user(
    host: Host, forker: Forker, late: bool
) -> None:
    first, second = runners_of(host, launcher(host, forker), late)
    assert first == second


def test_another_users_attempt_has_another_runner(host: Host, forker: Forker) -> None:
    """For what a runner has read of a job stays in its memory."""
    first, second = runners_of(host, launcher(host, forker), uid=os.getuid(), gid=os.getgid())
    assert first != second


def test_a_runner_that_was_signalled_runs_no_other_attempt(host: Host, forker: Forker) -> None:
    """The signal may come when the attempt that it is for has ended."""
    daemon = launcher(host, forker)
    daemon.launch(host.plan(*SLEEPER))
    assert isinstance(next_of(daemon), Started)
    daemon.terminate(SERIAL)
    runner = host.runner()
    assert isinstance(next_of(daemon), Ended)
    for _ in range(2):
        daemon.fds()
    wait_until(lambda: gone(runner))


def test_waiting_runners_end_with_their_daemon(host: Host, forker: Forker) -> None:
    daemon = launcher(host, forker)
    pid, _ = runners_of(host, daemon)
    daemon.close()
    wait_until(lambda: gone(pid))


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


def test_one_killed_while_it_is_waited_for_costs_nothing(
    host: Host, forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it has read the message, or while it forks."""
    send = forking.send

    def then_killed(to: Any, words: Any, fds: Any) -> None:
        send(to, words, fds)
        if words == process.NOW:
            os.kill(forker.pid, signal.SIGKILL)

    monkeypatch.setattr(forking, "send", then_killed)
    daemon = launcher(host, forker)
    for _ in range(3):
        runner = forker.take()
        if runner is not None:
            runner.close()
    daemon.launch(host.plan(*ONCE))
    assert isinstance(end_of(daemon), Ended) and ran_once(host)


def test_a_daemon_that_dies_before_its_orders_leaves_a_void_launch(
    host: Host, forker: Forker
) -> None:
    host.prepare()
    runner = taken(forker)
    os.close(runner.orders)
    assert select.select([runner.pidfd], [], [], 60)[0]
    os.close(runner.pidfd)
    assert sorted(os.listdir(host.folder)) == ["launch.json"]
    assert isinstance(host.daemon().adopt(SERIAL, 3), Void)


def test_it_ends_with_its_daemon(forker: Forker) -> None:
    forker._socket.close()
    wait_until(lambda: gone(forker.pid) or read_stat(forker.pid).dead)


def test_an_upgrade_is_run_and_not_what_was_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "radrm"
    for part in ("core", "host"):
        shutil.copytree(REPOSITORY / "radrm" / part, code / part)
    for file in (REPOSITORY / "radrm").glob("*.py"):
        shutil.copy2(file, code)
    (code / "__pycache__").mkdir()
    monkeypatch.setattr(process, "__file__", str(code / "host" / "attempts" / "forker.py"))
    monkeypatch.setattr(forking, "_PACKAGE", str(code))
    forker = Forker("(of one test)")
    wait_until(forker.is_ready, "the forker")
    first = forker.pid
    assert forker.is_current
    file = code / "host" / "attempts" / "tails.py"
    shutil.copy2(file, file.with_suffix(".new"))
    file.with_suffix(".new").rename(file)
    assert not forker.is_current
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
            wait_until(lambda: gone(forker.pid) or read_stat(forker.pid).dead)
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
    resource.prlimit(forker.pid, resource.RLIMIT_NOFILE, (6, 6))
    for _ in range(2):  # one or two were forked before
        with contextlib.suppress(OSError):
            taken(forker).close()
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
            assert select.select(list(daemon.fds()), [], [], 60)[0]
    for serial in range(100, 140):
        assert (host.cwd / str(serial)).read_text() == f"{serial}\n"
