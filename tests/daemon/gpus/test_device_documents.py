"""What `radrm gpus --json` says of a device, from its last reading."""

from __future__ import annotations

from radrm.core import events as ev
from radrm.core.records import AttemptMemory, Device, DeviceProcess, Reading
from radrm.core.words import DeviceKind
from radrm.daemon.views.device_documents import device_documents, processes_on
from radrm.documents.server import GpuProcess
from tests.world import World, gpus

MIG = Device("MIG-1", 1, "A100", 4864, kind=DeviceKind.MIG, parent="GPU-9")


def test_each_process_with_its_job() -> None:
    world = World((*gpus(1), MIG))
    job, other = (world.submit(memory_mib=10_000, user=user).id for user in ("ann", "bob"))

    def processes(reading: Reading) -> tuple[GpuProcess, ...] | None:
        world.step(ev.ReadingsTaken(at=world.now, readings=(reading,)))
        sees = {"ann"}.__contains__
        return processes_on(world.scheduler.snapshot, reading.device, lambda j: sees(j.spec.user))

    mine, theirs = (job, 1), (other, 2)
    held = (AttemptMemory(*mine, 700), AttemptMemory(*theirs, None))
    listed = (
        DeviceProcess(11, 700, "root", "python a.py", mine, 0.5),
        DeviceProcess(22, 300, "eve", "xmr", None),
        DeviceProcess(33, 30, "root", "nvidia-cuda-mps-server", None, mps=True),
        DeviceProcess(44, None, "bob", "python --key=SECRET", theirs),
    )
    found = processes(Reading("GPU-0", world.now, used_mib=1000, attempts=held, processes=listed))
    assert [(p.pid, p.kind, p.job, p.user, p.command, p.smact) for p in found] == [
        (11, "job", str(job), "ann", "python a.py", 0.5),
        (22, "unmanaged", None, "eve", "xmr", None),
        (33, "mps", None, "root", "nvidia-cuda-mps-server", None),
        (44, "job", str(other), "bob", None, None),
    ]
    alone = Reading("GPU-0", world.now, 300, (), smact=0.75, processes=(listed[1],))
    assert [p.smact for p in processes(alone) or ()] == [0.75], "it is alone there"
    everywhere = Reading("MIG-1", world.now, 0, (held[1],), processes=(listed[3],))
    assert processes(everywhere) == (), "listed for each instance of its GPU"
    assert processes(Reading("GPU-0", world.now, attempts=None)) is None
    assert processes(Reading("GPU-0", world.now, error="the GPU is lost")) is None


def test_a_drained_device_tells_its_trouble_too() -> None:
    world = World(gpus(1))
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason="new driver"))
    (well,) = device_documents(world.scheduler.snapshot, world.now)
    lost = Reading("GPU-0", world.now, error="the GPU is lost")
    world.step(ev.ReadingsTaken(at=world.now, readings=(lost,)))
    (ill,) = device_documents(world.scheduler.snapshot, world.now)
    assert (well.state, well.reason) == ("drained", "new driver")
    assert (ill.state, ill.reason) == ("drained", "new driver; the GPU is lost")
