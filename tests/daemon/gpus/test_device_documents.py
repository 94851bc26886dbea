"""What `radrm gpus --json` says of a device, from its last reading."""

from __future__ import annotations

from msgspec.structs import asdict

from radrm.core import events as ev
from radrm.core.records import Counters, Reading
from radrm.daemon.views.device_documents import device_documents
from tests.world import World, gpus


def test_counters_are_shown_while_they_are_known() -> None:
    world = World(gpus(1, unified=True))
    seen = Counters(0.9, 0.125, 0.5, 3.0, None)

    def document(reading: Reading) -> dict[str, object]:
        world.step(ev.ReadingsTaken(at=world.now, readings=(reading,)))
        (found,) = device_documents(world.scheduler.snapshot, world.now)
        return {name: getattr(found, name) for name in (*asdict(seen), "unified")}

    measured = Reading("GPU-0", world.now, used_mib=5, smact=0.5, counters=seen)
    assert document(measured) == {**asdict(seen), "unified": True}
    none = {**asdict(Counters()), "unified": True}
    assert document(Reading("GPU-0", world.now, used_mib=5)) == none
    assert document(Reading("GPU-0", world.now, error="the GPU is lost")) == none
