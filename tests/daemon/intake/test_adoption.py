"""Which process `radrm adopt` may book. The processes are real, the readings are not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.records import Reading, UnmanagedProcess
from radrm.daemon.intake import adoption
from radrm.daemon.intake.adoption import ALLOWED, adoptable, of_job
from radrm.daemon.intake.batch import take_in
from radrm.errors import Refused, UsageError
from radrm.host.processes.identity import boot_id
from radrm.host.processes.procfs import read_stat
from radrm.host.storage.spool import Arrival
from radrm.jobfile.options import BY_NAME
from radrm.jobfile.radfile import wrap_command
from radrm.jobfile.relations import AdoptOption
from tests.core.placements import server
from tests.host.storage.test_submitted import envelope
from tests.world import GIB, World, gpus

ME = os.getuid()
SLEEPS = "import time, subprocess; p = subprocess.Popen(['sleep', '99']); print(p.pid, flush=True)"
THREADS = "import threading, time; t = threading.Thread(target=time.sleep, args=(99,), daemon=True)"


@pytest.fixture(scope="module")
def family() -> Iterator[tuple[int, int]]:
    """A process and its child."""
    command = [sys.executable, "-c", f"{SLEEPS}; p.wait()"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            yield parent.pid, child
        finally:
            os.kill(child, 9)


def identity(pid: int, for_s: float | None = None) -> AdoptOption:
    stat = read_stat(pid)
    return AdoptOption(pid, stat.start_ticks if stat else 1, boot_id(), for_s)


def shown(*used: tuple[int, int | None], device: int = 0, world: World | None = None) -> World:
    """A server whose reading shows these unmanaged processes."""
    world = world or server(*gpus(2))
    listed = tuple(UnmanagedProcess(pid, mib) for pid, mib in used)
    total = sum(mib or 0 for _, mib in used)
    reading = Reading(f"GPU-{device}", world.now, total, unmanaged=listed)
    world.step(ev.ReadingsTaken(at=world.now, readings=(reading,)))
    return world


def found(world: World, pid: int, uid: int = ME, declared_mib: int | None = None) -> Any:
    return adoptable(world.scheduler.snapshot, identity(pid), uid, declared_mib)


# ------------------------------------------------------------------ where it is, and what it gets


def test_a_process_and_its_descendants_are_found_on_each_gpu(family: tuple[int, int]) -> None:
    parent, child = family
    world = shown((parent, 2 * GIB), (child, 3 * GIB), (os.getpid(), GIB))
    shown((child, 4 * GIB), device=1, world=world)
    both = found(world, parent)
    assert both.devices == (("GPU-0", 5 * GIB, 6 * GIB), ("GPU-1", 4 * GIB, 5 * GIB))
    assert sorted(both.pids) == sorted([parent, child])
    alone = found(world, child)
    assert alone.devices == (("GPU-0", 3 * GIB, 4 * GIB), ("GPU-1", 4 * GIB, 5 * GIB))


def test_it_takes_only_what_is_free(family: tuple[int, int]) -> None:
    """Also without a figure: the headroom is what is left, and no reservation is weakened."""
    parent, _ = family
    world = shown((parent, 30 * GIB))
    (device, *_) = world.scheduler.snapshot.devices
    assert device.free_mib is not None
    assert found(world, parent, declared_mib=30 * GIB + device.free_mib).devices[0][2] == 40 * GIB
    with pytest.raises(Refused, match=r"can have 40\.0G of GPU 0, --gpu-memory is 40\.0G|lower it"):
        found(world, parent, declared_mib=40 * GIB + 1)
    full = shown((parent, 40 * GIB - 10))
    assert found(full, parent).devices == (("GPU-0", 40 * GIB - 10, 40 * GIB),)


def test_its_declared_memory_is_at_least_what_it_uses(family: tuple[int, int]) -> None:
    parent, _ = family
    world = shown((parent, 21 * GIB))
    with pytest.raises(Refused, match=r"uses 21\.0G of GPU 0, --gpu-memory is 20\.0G"):
        found(world, parent, declared_mib=20 * GIB)
    assert found(world, parent, declared_mib=25 * GIB).devices[0][1:] == (21 * GIB, 25 * GIB)


def test_where_the_driver_tells_no_memory_the_user_does(family: tuple[int, int]) -> None:
    parent, _ = family
    world = shown((parent, None))
    with pytest.raises(Refused, match="say --gpu-memory=SIZE"):
        found(world, parent)
    assert found(world, parent, declared_mib=20 * GIB).devices[0][1:] == (0, 20 * GIB)


# ------------------------------------------------------------------ what is refused, in one line


def refused(world: World, asked: AdoptOption, uid: int = ME, **more: Any) -> str:
    with pytest.raises(Refused) as caught:
        adoptable(world.scheduler.snapshot, asked, uid, None, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_only_its_user_and_root_adopt_a_process(family: tuple[int, int]) -> None:
    parent, _ = family
    world = shown((parent, GIB))
    assert "belongs to" in refused(world, identity(parent), uid=ME + 1)
    assert found(world, parent, uid=0).pid == parent


def test_no_other_process_passes_for_it(family: tuple[int, int]) -> None:
    """Its pid was given again between the look and the adoption, or the server has restarted."""
    parent, _ = family
    world, real = shown((parent, GIB)), identity(parent)
    reused = AdoptOption(parent, real.start_ticks + 1, real.boot_id)
    assert "another one for the daemon" in refused(world, reused)
    earlier = AdoptOption(parent, real.start_ticks, "0" * 36)
    assert "another one for the daemon" in refused(world, earlier)


def test_a_process_that_has_ended_is_not_adopted() -> None:
    with subprocess.Popen(["true"]) as process:
        asked = identity(process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        zombie = refused(shown((process.pid, GIB)), asked)
    gone = refused(shown((process.pid, GIB)), asked)
    assert zombie == gone == f"there is no process {process.pid}"


def test_init_and_the_daemon_and_what_has_started_it_are_not_adopted() -> None:
    above = os.getppid()
    world = shown((1, GIB), (os.getpid(), GIB), (above, GIB))
    assert "is init" in refused(world, identity(1), uid=0)
    for pid in (os.getpid(), above) if above > 1 else (os.getpid(),):
        assert "is this daemon, or has started it" in refused(world, identity(pid), uid=0)


def test_a_thread_is_named_with_its_process() -> None:
    code = f"{THREADS}; t.start(); print(t.native_id, flush=True); time.sleep(99)"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        thread = int(process.stdout.readline())
        said = refused(shown((process.pid, GIB)), identity(thread))
        process.kill()
    assert (
        said == f"{thread} is a thread of process {process.pid}; write: radrm adopt {process.pid}"
    )


def test_a_process_on_no_gpu_is_not_adopted(family: tuple[int, int]) -> None:
    parent, child = family
    assert "is on no GPU that radrm watches" in refused(shown((parent, GIB)), identity(child))
    broken = server(*gpus(1))
    failed = Reading("GPU-0", broken.now, error="lost", unmanaged=(UnmanagedProcess(child, 1),))
    broken.step(ev.ReadingsTaken(at=broken.now, readings=(failed,)))
    assert "is on no GPU" in refused(broken, identity(child))


def test_a_jobs_process_is_named_with_its_job(family: tuple[int, int]) -> None:
    world = shown()
    job = world.submit(GIB)
    said = refused(world, identity(family[0]), owner_of=lambda pid: (job.id, 1))
    assert said == f"process {family[0]} belongs to job {job.label}"


def test_chains_of_processes_are_looked_along_for_a_bounded_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = []

    def endless(pid: int) -> Any:
        looks.append(pid)
        return SimpleNamespace(start_ticks=pid, parent=pid + 1)

    monkeypatch.setattr(adoption, "read_stat", endless)
    families = adoption.Families()
    asked = AdoptOption(5000 + adoption.MOST_ANCESTORS, 5000 + adoption.MOST_ANCESTORS, "")
    assert not families.descends(5000, asked) and families.descends(5001, asked)
    for pid in range(10_000, 10_000_000, 1000):
        assert not families.descends(pid, asked)
    assert len(looks) == len(set(looks)) == adoption.MOST_LOOKED_AT


def test_a_thousand_adoptions_of_a_process_are_one_job(family: tuple[int, int]) -> None:
    """All envelopes of one look are checked before the first of them is a job."""
    world = shown((family[0], GIB))
    batch = taken_in(world, text(family[0]))
    for number in range(1, 1001):
        (event,) = batch.events(0, number, number, world.now)
        world.step(event)
    states = [world.jobs[number].state.value for number in range(1, 1001)]
    assert states == ["RUNNING", *["FAILED"] * 999]
    assert world.jobs[1000].reason == f"process {family[0]} belongs to job 1"
    assert world.scheduler.snapshot.devices[0].reserved_mib == 2 * GIB


def test_jobs_of_one_look_reserve_no_memory_twice(family: tuple[int, int]) -> None:
    """Each envelope was checked while all was free yet. A parent has its child's memory, too."""
    parent, child = family
    world = shown((child, 10 * GIB))
    both = [taken_in(world, text(pid), **{"gpu-memory": "39G"}) for pid in (parent, child)]
    assert [batch.refused for batch in both] == [None, None]
    first, second = in_turn(world, both)
    assert (first.state.value, second.state.value) == ("RUNNING", "FAILED")
    assert second.reason == f"process {child} is not unmanaged on GPU 0 any more"
    assert world.scheduler.snapshot.devices[0].reserved_mib == 39 * GIB

    world = shown((parent, GIB), (child, 2 * GIB))
    (device, *_) = world.scheduler.snapshot.devices
    assert device.free_mib is not None
    in_turn(world, [taken_in(world, text(p), **{"gpu-memory": "38G"}) for p in (child, parent)])
    (after, *_) = world.scheduler.snapshot.devices
    assert after.reserved_mib == device.free_mib + 3 * GIB and after.free_mib == 0


def in_turn(world: World, batches: list[Any]) -> list[Any]:
    """The jobs of these envelopes, when all of them have been taken in."""
    for number, batch in enumerate(batches, start=1):
        (event,) = batch.events(0, number, number, world.now)
        world.step(event)
    return [world.jobs[number] for number, _ in enumerate(batches, start=1)]


# ------------------------------------------------------------------ envelopes, also forged ones


def taken_in(world: World, asked: str, uid: int = ME, **options: Any) -> Any:
    raw = {"gpus": "1", "adopt": asked, **options}
    sent = envelope(command=["radrm"], options=raw)
    arrival = Arrival(f"{sent.ticket}.job", uid, uid, None, None)
    return take_in(
        arrival,
        sent,
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        adopt=lambda job_file: of_job(world, job_file, uid),  # type: ignore[arg-type]
    )


def text(pid: int) -> str:
    its = identity(pid)
    return f"{its.pid}:{its.start_ticks}:{its.boot_id}"


def test_an_envelope_is_checked_again(family: tuple[int, int]) -> None:
    parent, _ = family
    world = shown((parent, GIB))
    batch = taken_in(world, text(parent), **{"gpu-memory": "3G"})
    assert batch.refused is None and batch.adopted.devices == (("GPU-0", GIB, 3 * GIB),)
    assert batch.known.estimates[0].source == "declared" and batch.known.fingerprint is None
    assert "belongs to" in taken_in(world, text(parent), uid=ME + 1).refused
    assert "no GPU" in taken_in(shown(), text(parent)).refused
    limit = taken_in(world, text(parent), **{"gpu-memory": "3G:5G"}).refused
    assert limit is not None and "nothing limits a process that runs already" in limit
    wrong = taken_in(world, text(parent), gpus="2").refused
    assert "is on 1 GPUs now, not on 2; adopt it again" in wrong


@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - ALLOWED))
def test_no_other_option_applies_to_a_process_that_runs(name: str) -> None:
    values = {"array": "0-9999", "param": ["a=1"], "after": ["1"], "role": ["a:1"], "env": ["A=1"]}
    value = values.get(name, True if BY_NAME[name].metavar is None else "1")
    try:
        job_file = wrap_command(["x"], {"adopt": text(os.getpid()), name: value})
    except UsageError:
        return  # refused already
    with pytest.raises(Refused, match=f"--{name} does not apply"):
        of_job(shown(), job_file, ME)  # type: ignore[arg-type]


def test_an_envelope_waits_for_the_first_readings() -> None:
    world = World(gpus(1), warm=False)
    with pytest.raises(OSError, match="have not been read yet"):
        taken_in(world, text(os.getpid() if os.getppid() == 1 else os.getppid()))


@pytest.mark.parametrize(
    "given",
    ["", "1", "0:1:" + "a" * 36, "-1:1:" + "a" * 36, "1:1:x", "1:1:" + "a" * 36 + ":-1",
     "1:1:" + "a" * 36 + ":0", "1:1:" + "a" * 36 + ":999999999", "1:1:" + "a" * 36 + ":1e9"],
)  # fmt: skip
def test_a_wrong_process_is_refused_in_one_line(given: str) -> None:
    with pytest.raises(UsageError, match="--adopt: "):
        wrap_command(["x"], {"adopt": given})
