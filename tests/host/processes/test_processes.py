"""An attempt's processes: their identity, how they are found, how they are ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.host.attempts.owners import LiveAttempt, PidOwners
from radrm.host.processes import cgroups
from radrm.host.processes import tree as proc
from radrm.host.processes.identity import (
    Identity,
    alive,
    boot_id,
    identify,
    open_pidfd,
    send_signal,
)
from radrm.host.processes.procfs import Stat, read_stat
from radrm.host.processes.tree import attempt_processes, kill_tree
from tests.host.processes.programs import ESCAPED, NO_PID, PYTHON, SLEEP, TOKEN, Run, gone, read_pid
from tests.waiting import wait_until

# ------------------------------------------------------------------ identity


NAMES = st.binary(max_size=15).filter(lambda name: b"\0" not in name)


@given(NAMES, st.integers(1, 2**22), st.integers(0, 2**63))
def test_stat_is_read_whatever_the_name(name: bytes, parent: int, ticks: int) -> None:
    fields = [b"S", b"%d" % parent, b"7", b"8", *[b"0"] * 13, b"1", b"0", b"%d" % ticks, b"99"]
    stat = Stat(b"4711 (" + name + b") " + b" ".join(fields) + b"\n")
    assert (stat.parent, stat.session, stat.start_ticks, stat.dead) == (parent, 8, ticks, False)


@pytest.mark.parametrize(
    ("state", "threads", "dead"),
    [("R", 1, False), ("D", 1, False), ("T", 1, False), ("Z", 1, True), ("Z", 3, False)],
)
def test_a_leader_that_left_its_threads_is_not_dead(state: str, threads: int, dead: bool) -> None:
    text = f"1 (x) {state} 1 1 1 {'0 ' * 13}{threads} 0 5 0"
    assert Stat(text.encode()).dead is dead


def test_identity_of_ourselves() -> None:
    me = identify(os.getpid())
    assert me.pid == os.getpid() and me.boot_id == boot_id()
    assert alive(me)
    assert me == identify(os.getpid()) and len({me, identify(os.getpid())}) == 1
    assert identify(NO_PID) is None


@pytest.mark.parametrize(
    "other",
    [
        lambda me: Identity(me.pid, me.start_ticks + 1, me.boot_id),
        lambda me: Identity(me.pid, me.start_ticks, "another-boot"),
        lambda me: Identity(NO_PID, me.start_ticks, me.boot_id),
    ],
    ids=["another process of that pid", "another boot", "nobody"],
)
def test_another_process_is_never_taken_for_it(other: Callable[[Identity], Identity]) -> None:
    me = identify(os.getpid())
    assert me is not None
    assert not alive(other(me))
    assert open_pidfd(other(me)) is None


def test_a_zombie_is_dead(run: Run) -> None:
    process = run(SLEEP)
    identity = identify(process.pid)
    assert identity is not None and alive(identity)
    fd = open_pidfd(identity)
    assert fd is not None
    os.close(fd)
    os.kill(process.pid, signal.SIGKILL)  # and nobody waits for it
    wait_until(lambda: not alive(identity))
    assert identify(process.pid) == identity
    assert open_pidfd(identity) is None


def test_a_signal_reaches_that_process_alone(run: Run) -> None:
    process = run(SLEEP)
    identity = identify(process.pid)
    assert not send_signal(process.pid, identity.start_ticks + 1, signal.SIGKILL)
    assert not send_signal(NO_PID, 1, signal.SIGKILL)
    assert process.poll() is None
    assert send_signal(process.pid, identity.start_ticks, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


# ------------------------------------------------------------------ an attempt's


def test_descendants_of_the_root_but_not_the_root(run: Run, tmp_path: Path) -> None:
    code = "import os, time\nif os.fork() == 0: os.setsid(); os.fork()\ntime.sleep(1000)"
    process = run(code)
    root = identify(process.pid)
    assert root is not None
    wait_until(lambda: len(attempt_processes(None, root)) == 2)
    assert process.pid not in attempt_processes(None, root)
    elsewhere = Identity(root.pid, root.start_ticks + 1, root.boot_id)
    assert attempt_processes(None, elsewhere) == set()
    assert len(attempt_processes(None, None, [root.pid])) == 3
    assert kill_tree(None, root) == set()
    assert alive(root)


def test_the_token_finds_who_left_the_tree(run: Run) -> None:
    process = run(SLEEP, token=TOKEN)
    run(SLEEP, token=TOKEN + "-of-another")
    wait_until(lambda: attempt_processes(TOKEN, None) == {process.pid})


def test_a_session_is_found_by_its_leader(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    code = f"""{ESCAPED}
os.setsid()
if os.fork() == 0:
    if os.fork() == 0:
        open(sys.argv[1] + ".tmp", "w").write(str(os.getpid()))
        os.rename(sys.argv[1] + ".tmp", sys.argv[1])
        time.sleep(1000)
    os._exit(0)
os.wait()
time.sleep(1000)
"""
    leader = run(code, str(path))
    orphan = read_pid(path)
    wait_until(lambda: (found := read_stat(orphan)) and found.parent != leader.pid)
    # The one between them may still be ending: its child is another's before it is a zombie.
    wait_until(lambda: attempt_processes(None, None, [leader.pid]) == {leader.pid, orphan})
    assert kill_tree(None, None, [leader.pid]) == set()
    assert gone(orphan)


def test_a_long_chain_of_children_costs_as_much_as_its_length() -> None:
    """As of a job that forks all the time, each process the child of the last."""
    length, asked = 2000, 0
    first = 2**22  # no pid is as high: none of them is this process, which is left out

    class Counted(Stat):
        def __getattribute__(self, name: str) -> Any:
            nonlocal asked
            asked += 1
            return super().__getattribute__(name)

    text = "1 (x) S {} 1 1 " + "0 " * 13 + "1 0 5 0"
    chain: dict[int, Stat] = {
        first + n: Counted(text.format(first + n - 1).encode()) for n in range(length)
    }
    asked = 0
    assert proc.gather(chain, None, [first]) == set(chain)
    assert asked <= 10 * length


def test_the_caller_is_never_among_them() -> None:
    assert os.getpid() not in attempt_processes(None, None, [os.getpid(), os.getppid()])


def test_kill_tree_ends_what_is_stopped_and_what_ignores_term(run: Run) -> None:
    stopped = run(SLEEP, token=TOKEN)
    os.kill(stopped.pid, signal.SIGSTOP)
    stubborn = run(f"import signal; signal.signal(15, signal.SIG_IGN); {SLEEP}", token=TOKEN)
    wait_until(lambda: len(attempt_processes(TOKEN, None)) == 2)
    assert kill_tree(TOKEN, None) == set()
    assert {stopped.wait(), stubborn.wait()} == {-signal.SIGKILL}


def test_kill_tree_ends_what_forks_all_the_time() -> None:
    """Each process lives only until it has a child, and none of them lives when we look.

    It is kept slow and ends by itself, so that it harms nobody should it escape."""
    code = """
import os, time
end = time.monotonic() + 10
os.fork()
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    time.sleep(0.001)
"""
    bomb = subprocess.Popen([*PYTHON, code], env={"RADRM_TOKEN": TOKEN}, start_new_session=True)
    try:
        bomb.wait()
        assert group_of(bomb.pid)
        # Two seconds were too few for a busy machine; after ten it ends by itself.
        assert kill_tree(TOKEN, None, seconds=8.0) == set()
        assert not group_of(bomb.pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(bomb.pid, signal.SIGKILL)


def test_a_look_finds_what_began_during_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where other processes got newer pids since then."""
    begun = run(SLEEP, token=TOKEN)
    wait_until(lambda: attempt_processes(TOKEN, None) == {begun.pid})
    given = [begun.pid - 1, begun.pid + 30]
    monkeypatch.setattr(proc, "_newest_pid", lambda: given.pop(0) if given[1:] else given[0])
    listed = [name for name in os.listdir("/proc") if name != str(begun.pid)]
    monkeypatch.setattr(proc.os, "listdir", lambda folder: listed)
    assert attempt_processes(TOKEN, None) == {begun.pid}


def group_of(leader: int) -> set[int]:
    """The living processes of a group; stopped for that, so that none can hide."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGSTOP)
    stats = {int(name): read_stat(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGCONT)
    return {pid for pid, s in stats.items() if s is not None and s.group == leader and not s.dead}


def test_a_group_with_another_process_is_not_signalled(run: Run) -> None:
    """As when a job runs in the group of who started it."""
    both = "import os, sys, time\nif os.fork() == 0: os.execve(sys.executable, sys.orig_argv[:4] +"
    both += f" ['import time; time.sleep(1000)'], {{'RADRM_TOKEN': '{TOKEN}'}})\ntime.sleep(1000)"
    unmanaged = subprocess.Popen([*PYTHON, both], start_new_session=True, env={})
    try:
        wait_until(lambda: attempt_processes(TOKEN, None))
        assert kill_tree(TOKEN, None) == set()
        assert unmanaged.poll() is None
    finally:
        unmanaged.kill()
        unmanaged.wait()


# ------------------------------------------------------------------ control groups


@pytest.fixture
def group() -> Iterator[str]:
    path = cgroups.place(f"radrm-test-{os.getpid()}")
    if path is None or not cgroups.make(path):
        pytest.skip("no control group can be made here")
    yield path
    wait_until(lambda: cgroups.remove(path))


def test_a_group_holds_who_clears_its_tracks(run: Run, tmp_path: Path, group: str) -> None:
    code = f"{ESCAPED}\nsys.stdin.read(1)\nescape()"
    command = [*PYTHON, code, str(tmp_path / "pid")]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as parent:
        assert cgroups.join(group, parent.pid)
        parent.communicate(b"\n")
    escaped = read_pid(tmp_path / "pid")
    assert attempt_processes(TOKEN, None) == set()
    assert cgroups.processes(group) == {escaped}
    owners = PidOwners()
    owners.update([LiveAttempt(3, 1, TOKEN, None, group)])
    assert owners.owner_of(escaped) == (3, 1)
    assert kill_tree(TOKEN, None, cgroup=group) == set()
    assert gone(escaped)


def test_a_group_of_that_name_elsewhere_proves_nothing(group: str) -> None:
    """Users can be given groups of their own, and read the names of others."""
    outer = os.path.join(os.path.dirname(group), f"radrm-test-user-{os.getpid()}")
    inner = os.path.join(outer, os.path.basename(group))
    try:
        assert cgroups.make(outer) and cgroups.make(inner)
        with subprocess.Popen(
            [*PYTHON, "import sys; sys.stdin.read(1)"], stdin=subprocess.PIPE
        ) as process:
            assert cgroups.join(inner, process.pid)
            owners = PidOwners()
            owners.update([LiveAttempt(3, 1, TOKEN, None, group)])
            assert owners.owner_of(process.pid) is None
            owners.update([LiveAttempt(3, 1, TOKEN, None, inner)])
            assert owners.owner_of(process.pid) == (3, 1)
            process.communicate(b"\n")
    finally:
        wait_until(lambda: cgroups.remove(outer))


def test_a_group_that_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "missing" / "group")
    assert not cgroups.make(path)
    assert not cgroups.join(path, os.getpid())
    assert not cgroups.kill(path)
    assert cgroups.processes(path) == set()
    assert cgroups.remove(path)
