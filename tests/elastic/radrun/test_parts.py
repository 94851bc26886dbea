"""Parts of radrun alone: CPUs, use, reports, environment, files."""

from __future__ import annotations

import ast
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from selectors import DefaultSelector
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.elastic.radrun import arguments
from radrm.elastic.radrun.folder import Folder
from radrm.elastic.radrun.placement import Placement, Task, is_server, parse
from radrm.elastic.radrun.reports import MOST_BYTES, Reports, Usage, Use
from radrm.elastic.radrun.workers import environment, launching, proc
from radrm.elastic.radrun.workers.cpus import Cpus, deal, set_affinity
from radrm.elastic.radrun.workers.members import Generation
from radrm.elastic.radrun.workers.process import Worker
from radrm.jobfile.inherited import drop_outer
from tests.waiting import wait_until

STANDBY = Path(environment.__file__).with_name("standby.py")


@given(
    size=st.integers(1, 64),
    shares=st.lists(st.one_of(st.none(), st.floats(0.1, 32)), min_size=1, max_size=12),
    job=st.integers(0, 10_000),
)
def test_cpus_are_shared_only_when_there_are_too_few(
    size: int, shares: list[float | None], job: int
) -> None:
    allowed = list(range(100, 100 + size))
    dealt = deal(allowed, {("main", i): share for i, share in enumerate(shares)}, job)
    for (_, number), cpus in dealt.items():
        share = shares[number]
        assert cpus <= set(allowed)
        if share is None:
            assert cpus == set(allowed)
        else:
            assert min(size, share) - 1e-6 <= len(cpus) <= max(1, min(size, share + 1))
    own = [cpus for (_, number), cpus in dealt.items() if shares[number] is not None]
    if sum(map(len, own)) <= size:
        assert sum(map(len, own)) == len(set().union(*own)), "no CPU is dealt twice"


@pytest.mark.parametrize(
    ("cpu_lists", "shares", "places"),
    [
        # Each near its own GPU.
        (("0-3", "8-11"), (2.0, 2.0), {(0, 1, 2, 3): [0], (8, 9, 10, 11): [1]}),
        # Together they have more CPUs than are near; the other has enough.
        (("0-3", "0-3", "8"), (3.0, 2.0, 1.0), {tuple(range(16)): [0, 1], (8,): [2]}),
        (("0-3", ""), (None, None), {(0, 1, 2, 3): [0], tuple(range(16)): [1]}),
        # What is no list.
        (("-1,a,3-2,99999", " 1"), (1.0, 1.0), {tuple(range(16)): [0, 1]}),
    ],
)
def test_workers_are_near_their_own_gpus(
    cpu_lists: tuple[str, ...],
    shares: tuple[float | None, ...],
    places: dict[tuple[int, ...], list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    cpus = Cpus(1)
    both = enumerate(zip(cpu_lists, shares, strict=True))
    cpus.place([Task("main", n, (), s, {"RADRM_CPU_LIST": text}) for n, (text, s) in both])
    found = cpus._places({("main", n): share for n, share in enumerate(shares)})
    assert {place: [n for _, n in its] for place, its in found.items()} == places


def test_affinity_is_set_for_all_threads() -> None:
    program = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        threads = Path(f"/proc/{process.pid}/task")
        wait_until(lambda: len(list(threads.iterdir())) == 2, "its thread")
        cpu = min(os.sched_getaffinity(0))
        set_affinity(process.pid, {cpu})
        assert all(os.sched_getaffinity(int(t.name)) == {cpu} for t in threads.iterdir())
    finally:
        process.kill()
        process.wait()


def test_a_tree_has_the_session_of_a_dead_leader() -> None:
    """Its orphans would hold the GPU unseen."""
    program = "import subprocess\nprint(subprocess.Popen(['sleep', '60'], stdout=-3).pid)\n"
    leader = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True, text=True
    )
    out, _ = leader.communicate()
    child = int(out)
    everything = proc.census()
    assert proc.tree(everything, {leader.pid}) == {child}
    proc.kill(everything, {child}, signal.SIGKILL)
    wait_until(lambda: child not in proc.census(), "its end")


def test_a_process_that_has_got_the_pid_of_an_ended_worker_is_spared() -> None:
    generation = Generation(1, Placement(1, (Task("main", 0),)))
    first = SimpleNamespace(pid=50, start_ticks=7, task=Task("main", 0))
    generation.add(cast("Worker", first))

    def process(parent: int, session: int, start_ticks: int) -> Any:
        where = {"parent": parent, "session": session, "marked": False}
        return SimpleNamespace(**where, start_ticks=start_ticks)

    its = {50: process(1, 50, 7), 51: process(50, 50, 8), 52: process(1, 52, 8)}
    assert generation.processes(its) == {50, 51}
    orphan = {51: its[51]}
    assert generation.processes(orphan) == {51}, "its session has the number still"
    assert generation.processes({**its, 50: process(1, 50, 9)}) == set()


def test_a_worker_that_has_ended_says_nothing_about_the_process_with_its_pid() -> None:
    with subprocess.Popen(["sleep", "1000"]) as other:
        try:
            before = os.sched_getaffinity(other.pid)
            ended = cast("Worker", SimpleNamespace(pid=other.pid, ended=True))
            cpus = Cpus(1)
            cpus.set({("main", 0): 1.0})
            cpus.apply({("main", 0): ended})
            assert os.sched_getaffinity(other.pid) == before
            assert Usage().look({("main", 0): ended}) == {("main", 0): Use(0.0, 0)}
        finally:
            other.kill()


def test_reports_are_bounded_and_merged(tmp_path: Path) -> None:
    path = str(tmp_path / "progress")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(path)
        receiver.setblocking(False)
        reports = Reports(path)
        reports.progress(1, 100, 0.5, 0.2)
        reports.send_due(10.0)
        reports.progress(2, 100, 0.4, 0.4)
        reports.progress(3, 100, float("nan"), 0.6)
        reports.send_due(10.1)
        assert receiver.recv(4096) == b"step=1.0\ntotal=100.0\nloss=0.5\ndata_wait=0.2\n"
        with pytest.raises(BlockingIOError):
            receiver.recv(4096)
        reports.send_due(10.6)
        assert receiver.recv(4096) == b"step=3.0\ntotal=100.0\nloss=0.4\ndata_wait=0.5\n"
        reports.resized(7)
        assert receiver.recv(4096) == b"resized=7\n"
        reports.use({("worker", n): Use(1234.5, 999) for n in range(60)})
        received = b""
        parts = 0
        while received.count(b"\n") < 60:
            part = receiver.recv(4096)
            assert len(part) <= MOST_BYTES
            received, parts = received + part, parts + 1
        assert b"use.worker.59=1234.50,999\n" in received and parts < 6
        reports.close()


def test_a_worker_with_its_own_gpu_is_the_one_of_its_node() -> None:
    tasks = tuple(Task("main", n, (f"GPU-{n}",), 4.0, {"X": str(n)}) for n in (0, 2))
    found = environment.variables(tasks[1], Placement(3, tasks), 5, 1, 3)
    expected = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    assert expected.items() <= found.items()
    own = {"RADRM_TASK": "2", "RADRM_GENERATION": "5", "RADRM_CPUS": "4", "X": "2"}
    assert own.items() <= found.items()
    assert found["TORCHELASTIC_RESTART_COUNT"] == "1"


def test_workers_that_see_the_same_devices_have_torchruns_numbers() -> None:
    tasks = tuple(Task("main", n) for n in range(3))
    found = environment.variables(tasks[2], Placement(1, tasks), 1, 0, 3)
    assert (found["LOCAL_RANK"], found["LOCAL_WORLD_SIZE"], found["GROUP_RANK"]) == ("2", "3", "0")


def test_roles_have_the_addresses_of_all() -> None:
    tasks = (Task("ps", 0), Task("ps", 1), Task("worker", 0), Task("worker", 3))
    placement = Placement(1, tasks)
    found = environment.Ports(placement).variables(tasks[3], placement)
    ports = {each for peers in eval(found["RADRM_PEERS"]).values() for each in peers}
    assert len(ports) == 4
    assert '"task": {"type": "worker", "index": 1}' in found["TF_CONFIG"]
    assert found["MASTER_PORT"] not in {port.split(":")[1] for port in ports}
    counts = placement.roles()
    assert is_server("ps", counts) and not is_server("worker", counts)
    assert not is_server("main", {"main": 4})


def test_a_job_that_a_worker_submits_inherits_nothing_of_radrun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    users = {"HOME": "/home/ann", "PATH": "/bin"}
    monkeypatch.setattr(os, "environ", dict(users))
    given: list[dict[str, str]] = []

    def begin(_: object, task: Task, program: object, its: dict[str, str], *others: object) -> Any:
        given.append(its)
        return SimpleNamespace(task=task, pid=len(given), start_ticks=1)

    monkeypatch.setattr(launching, "Worker", begin)
    common = launching.common_environment("/hub", "/checkpoints")
    tasks = tuple(Task("main", n, environment={"OMP_NUM_THREADS": "2"}) for n in range(2))
    generation = Generation(1, Placement(1, tasks))
    launcher = launching.Launcher(
        DefaultSelector(), arguments.parse(["train.py"]), common, "/place", lambda: None
    )
    launcher.fill(generation, 0, goes=True)
    assert [its["RANK"] for its in given] == ["0", "1"]
    assert all("MASTER_ADDR" in its for its in given)
    for its in given:
        drop_outer(its)
        assert its == users


@pytest.mark.parametrize(
    ("task", "wrong"),
    [
        ("{}", "role"),
        ('{"role": "main"}', "task"),
        ('{"role": "main", "task": true}', "task"),
        ('{"role": "main", "task": 0, "gpus": 1}', "gpus"),
        ('{"role": "main", "task": 0, "cpus": -1}', "cpus"),
        (f'{{"role": "main", "task": 0, "cpus": 1{"0" * 400}}}', "cpus"),
        ('{"role": "main", "task": 0, "environment": {"A=B": "x"}}', "environment"),
    ],
)
def test_a_wrong_task_is_named(task: str, wrong: str) -> None:
    text = f'{{"version": 1, "generation": 1, "tasks": [{task}]}}'
    with pytest.raises(ValueError, match=wrong):
        parse(text.encode(), 1)


def test_what_runs_in_the_users_python_is_of_python_3_8() -> None:
    text = STANDBY.read_text()
    ast.parse(text, feature_version=(3, 8))


def test_who_begins_a_resize_first_decides(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    assert folder.begin(2) and not folder.begin(2)
    assert folder.begun(2) and not folder.begun(3)
    assert Folder(str(tmp_path)).begin(3)


def test_shares_that_are_nested_without_end_are_no_shares(tmp_path: Path) -> None:
    (tmp_path / "shares.json").write_text("[" * 1000)
    with pytest.raises(ValueError, match="array"):
        Folder(str(tmp_path)).new_shares()
