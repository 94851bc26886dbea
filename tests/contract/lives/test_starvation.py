"""Nobody waits for ever: random servers whose devices come and go, and random jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from radrm.core import events as ev
from radrm.core.records import Device, Needs, OutOfMemory, Reading, Role
from radrm.core.rules import Order
from radrm.core.settings import CoreSettings
from radrm.core.state.ledger import OUT_OF_SERVICE_S
from radrm.core.words import Collocation, DeviceKind, JobState
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import BestFit, Magm, RoundRobin
from radrm.structs import replace
from tests.examples import lives
from tests.world import GIB, ORDERS, World

POLICIES = (Magm(), BestFit(), Exclusive(), RoundRobin())
SETTINGS = tuple(
    CoreSettings(smact_warm_s=0, smact_after_exit_s=0, yield_to_unmanaged=yields)
    for yields in (False, True)
)


class Server(World):
    """A world whose devices vanish, are drained, cannot be read, or are not well."""

    faults: dict[str, str]
    every: tuple[Device, ...]

    def _reading(self, uuid: str) -> Reading:
        return replace(super()._reading(uuid), fault=self.faults.get(uuid))

    def read(self, uuids: Any = None) -> Any:
        there = {d.uuid for d in self.devices}
        return super().read([u for u in (there if uuids is None else uuids) if u in there])

    def live_ids(self) -> list[int]:
        return [a.job_id for a in self.attempts.values() if a.ended is None]

    # ------------------------------------------------------------- moves

    def come(self, job: dict[str, Any], used: int) -> None:
        made = self.submit(**job)
        self.used[made.id] = used

    def end_one(self, pick: int, oom: bool) -> None:
        live = self.live_ids()
        if live:
            dies = OutOfMemory("test", 512) if oom else None
            self.end(live[pick % len(live)], int(oom), oom=dies)

    def go(self, pick: int, how: str) -> None:
        uuid = self.every[pick % len(self.every)].uuid
        if how == "vanish":
            self.see(tuple(d for d in self.devices if d.uuid != uuid))
        elif how == "drain":
            self.step(ev.DrainRequested(at=self.now, device=uuid, reason="test"))
        elif how == "break":
            self.broken[uuid] = "GPU is lost"
        else:
            self.faults[uuid] = "Xid 48"

    def see(self, devices: tuple[Device, ...]) -> None:
        self.devices = devices
        self.step(ev.DevicesSeen(at=self.now, devices=devices))

    def come_back(self) -> None:
        self.faults, self.broken, self.unmanaged = {}, {}, {}
        self.see(self.every)
        for device in self.every:
            self.step(ev.DrainRequested(at=self.now, device=device.uuid, reason=None))

    # ------------------------------------------------------------- what holds

    def end_all(self) -> None:
        """Time passes, and what runs ends, until nothing more starts."""
        self.pass_time(OUT_OF_SERVICE_S + 1)
        while True:
            self.pass_time(OUT_OF_SERVICE_S + 1)
            live = self.live_ids()
            if not live:
                return
            for job_id in live:
                if self.live(job_id) is not None:
                    self.end(job_id)

    def check_reasons(self) -> None:
        for job in self.jobs.values():
            if job.state.waiting:
                found = self.scheduler.why_waiting(job.id, self.now)
                assert found, f"job {job.id} waits and cannot say why"
                assert all(r.message and "\n" not in r.message for r in found)
                assert found[0].rule != "next", f"job {job.id} could start and does not"


@st.composite
def servers(draw: st.DrawFn) -> tuple[Device, ...]:
    found = []
    with_mps = draw(st.sampled_from(["none", "some", "some", "all"]))
    spans, multiuser = draw(st.booleans()), draw(st.sampled_from([False, False, True]))
    kinds = st.sampled_from(["gpu"] if draw(st.booleans()) else ["gpu", "gpu", "large", "mig"])
    for index in range(draw(st.integers(1, 4))):
        kind = draw(kinds)
        mps = kind != "mig" and (with_mps == "all" or (with_mps == "some" and index == 0))
        gpu = Device(
            uuid=f"GPU-{index}",
            index=index,
            name="GPU",
            total_mib={"gpu": 40, "large": 80, "mig": 5}[kind] * GIB,
            mps=mps,
            mps_spans=mps and spans,
            mps_multiuser=mps and multiuser,
        )
        mig = replace(gpu, kind=DeviceKind.MIG, profile="1g.5gb")
        found.append(mig if kind == "mig" else gpu)
    return tuple(found)


one = (Role(),)
shapes = st.one_of(
    st.just(one),
    st.just(one),
    st.builds(lambda n: (Role(needs=Needs(gpus=n)),), st.integers(0, 4)),
    st.builds(lambda n: (Role(count_min=n, count_max=n),), st.integers(1, 3)),
    st.just((Role("a"), Role("b", needs=Needs(gpus=2)))),
)
jobs = st.fixed_dictionaries(
    {
        "roles": shapes,
        "memory_mib": st.sampled_from([None, GIB, 4 * GIB, 30 * GIB, 60 * GIB, 2**30]),
        "smact": st.sampled_from([None, 0.1, 0.1, 0.9]),
        "collocation": st.sampled_from([*[Collocation.AUTO] * 5, *Collocation]),
        "uid": st.integers(1, 2),
        "priority": st.sampled_from([0, 0, 1]),
    }
)


def move(does: Callable[..., None], **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(partial, st.just(does), **arguments)


picks = st.integers(0, 20)
comes = move(Server.come, job=jobs, used=st.sampled_from([0, 500, 4 * GIB]))
moves = st.one_of(
    comes,
    comes,
    comes,
    move(Server.end_one, pick=picks, oom=st.booleans()),
    move(Server.go, pick=picks, how=st.sampled_from(["vanish", "drain", "break", "fault"])),
    move(Server.come_back),
    move(Server.restart),
    move(Server.pass_time, seconds=st.sampled_from([1.0, 70.0, 2000.0, 2000.0])),
)


@lives(70)
@given(
    devices=servers(),
    policy=st.sampled_from(POLICIES),
    order=st.sampled_from(ORDERS),
    core=st.sampled_from(SETTINGS),
    moves=st.lists(moves, min_size=5, max_size=25),
)
def test_nobody_waits_for_ever_nor_without_a_reason(
    devices: tuple[Device, ...],
    policy: Any,
    order: Order,
    core: CoreSettings,
    moves: list[Callable[[Server], None]],
) -> None:
    Server.faults = {}
    world = Server(devices, policy=policy, order=order, settings=core)
    world.every = devices
    for make in moves:
        make(world)
        world.read()
        world.check_reasons()
    # With what is in service now: whoever still waits needs what is not.
    world.end_all()
    world.check_reasons()
    for job in world.jobs.values():
        if job.state.waiting:
            why = world.why(job)
            # A daemon that has seen no device since its start cannot know what is missing.
            seen = world.scheduler.state.known_devices()
            assert why == ["service"] or not seen, f"job {job.id} waits on an idle server for {why}"
    # And with all of it.
    world.come_back()
    world.end_all()
    left = [job for job in world.jobs.values() if not job.state.final]
    assert not left, [world.why(job) for job in left]
    assert all(job.state is not JobState.RUNNING for job in world.jobs.values())
