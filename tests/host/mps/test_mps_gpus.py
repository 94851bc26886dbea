"""Which GPUs are under MPS, and what their readings say of it."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.config import Config, MpsConfig, parse_config, with_set
from radrm.core.records import Device, DeviceProcess, Instant, Reading
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError, Refused
from radrm.host.gpus.readings import Readings
from radrm.host.gpus.source import GpuSource
from radrm.host.mps import service as module
from radrm.host.mps.interface import DaemonHooks, NoClientNow
from radrm.host.mps.keeper import Keeper
from radrm.host.mps.service import MpsService, SimulatedMps
from tests.host.mps.controls import ONE, TWO, Fake

# ------------------------------------------------------------------ whose device is whose


def gpu(uuid: str, index: int, **more: Any) -> Device:
    return Device(uuid=uuid, index=index, name="A100", total_mib=40960, **more)


GPUS = (gpu(ONE, 0), gpu(TWO, 1))
MIG = gpu("MIG-1", 2, kind=DeviceKind.MIG)


class Source(GpuSource):
    name = "fake"

    def __init__(self, *devices: Device) -> None:
        self.there = devices
        self.unmanaged: tuple[DeviceProcess, ...] = ()

    def devices(self) -> tuple[Device, ...]:
        return self.there

    def read(self, uuids: Any, at: Instant, owner_of: Any) -> tuple[Reading, ...]:
        return tuple(Reading(device=u, at=at, used_mib=0, processes=self.unmanaged) for u in uuids)

    def close(self) -> None:
        pass


@pytest.fixture
def faked(mocker: Any) -> None:
    """Control daemons that are words, kept by nobody but the test."""
    mocker.patch.object(module, "Control", side_effect=named)
    mocker.patch.object(module.Keeper, "begin")


def named(pipes: str, logs: str, uuid: str, multiuser: bool = False) -> Fake:
    fake = Fake()
    fake.multiuser = multiuser
    fake.pipes, fake.logs, fake.uuid = pipes, logs, uuid
    return fake


def served(*words: Any, **settings: Any) -> tuple[MpsService, Readings, Source]:
    config = MpsConfig(enabled=True, only=tuple(map(str, words)), **settings)
    source = Source(*GPUS, MIG)
    service = MpsService(config, "/run/radrm")
    return service, Readings(source, service), source


def rounds(service: MpsService, uuid: str) -> Keeper:
    keeper = service.keeper_of(uuid)
    keeper.round(0.0)
    keeper.round(0.0)
    return keeper


@pytest.mark.usefixtures("faked")
@pytest.mark.parametrize(
    "words, meant",
    [((), (0, 1)), ((0,), (0,)), ((TWO,), (1,)), (("GPU-2222",), (1,)), ((0, 1, 2), (0, 1))],
)
def test_the_gpus_that_are_meant_are_under_mps_and_no_instance_is(
    words: tuple[Any, ...], meant: tuple[int, ...]
) -> None:
    _, source, _ = served(*words)
    devices = source.devices()
    assert tuple(d.index for d in devices if d.mps) == meant
    simulated = SimulatedMps("/run", MpsConfig(True, tuple(map(str, words))))
    assert tuple(d.index for d in simulated.listed((*GPUS, MIG)) if d.mps) == meant


@pytest.mark.usefixtures("faked")
def test_each_gpu_has_its_own_pipes_and_counts_as_the_first() -> None:
    service, source, _ = served(active_thread_percentage=40)
    source.devices()
    for uuid, name in ((ONE, "11111111"), (TWO, "22222222")):
        rounds(service, uuid)
        access = service.access([uuid])
        assert (access.pipes, access.logs) == (
            f"/run/radrm/mps/{name}",
            f"/run/radrm/mps/{name}.log",
        )
        assert access.thread_percentage == 40
    with pytest.raises(DeviceError):
        service.access([ONE, TWO])


@pytest.mark.usefixtures("faked")
def test_uuids_that_begin_alike_do_not_share_pipes() -> None:
    service = MpsService(MpsConfig(True), "/run/radrm")
    service.listed((gpu("GPU-11111111-a", 0), gpu("GPU-11111111-b", 1)))
    assert len({row["pipes"] for row in service.rows()}) == 2


@pytest.mark.usefixtures("faked")
def test_a_job_is_no_client_of_a_server_that_is_not_ready() -> None:
    service, source, _ = served()
    source.devices()
    with pytest.raises(NoClientNow, match="is starting"):
        service.access([ONE])


@pytest.mark.usefixtures("faked")
def test_a_change_lists_the_devices_again_and_until_then_no_job_comes() -> None:
    service, source, base = served()
    devices = source.devices()
    service.begin(DaemonHooks(lambda pid: None, lambda: None, 30.0))
    at, uuids = Instant(1.0, 1.0), [d.uuid for d in devices]
    starting = source.read(uuids, at, lambda pid: None)
    assert ["is starting" in (r.fault or "") for r in starting] == [True, True, False]
    keepers = [rounds(service, u) for u in (ONE, TWO)]
    assert [r.fault for r in source.read(uuids, at, lambda pid: None)] == [None] * 3
    assert not source.changed
    keepers[0].turn_off(force=False)
    assert source.changed and source.read([ONE], at, lambda pid: None)[0].fault
    assert [d.mps for d in source.devices()] == [False, True, False]
    assert not source.changed and not source.read([ONE], at, lambda pid: None)[0].fault
    # The processes of MPS itself are nobody's secret use of the device.
    base.unmanaged = (DeviceProcess(pid=keepers[1].seen.pid or 0), DeviceProcess(pid=1))
    (reading,) = source.read([TWO], at, lambda pid: None)
    assert [s.pid for s in reading.unmanaged] == [1]
    assert [s.mps for s in reading.processes] == [True, False]


@pytest.mark.usefixtures("faked")
def test_names_of_gpus_that_are_not_there_are_told(caplog: pytest.LogCaptureFixture) -> None:
    service, source, _ = served(0, 7)
    source.devices()
    service.begin(DaemonHooks(lambda pid: None, lambda: None, 30.0))
    assert "names GPU 7" in caplog.text and "names GPU 0" not in caplog.text


@pytest.mark.usefixtures("faked")
def test_a_missing_program_is_told_once_for_all_gpus(
    caplog: pytest.LogCaptureFixture, mocker: Any
) -> None:
    mocker.patch.object(Fake, "missing", lambda self: "it is not on PATH")
    service, source, _ = served()
    assert not any(d.mps for d in source.devices())
    service.begin(DaemonHooks(lambda pid: None, lambda: None, 30.0))
    for uuid in (ONE, TWO):
        rounds(service, uuid)
    assert caplog.text.count("not on PATH") == 1 and "time-slicing" in caplog.text
    assert {row["fault"] for row in service.rows()} == {"it is not on PATH"}
    with pytest.raises(Refused, match="not on PATH"):
        service.turn_on([ONE])


def test_simulated_gpus_need_no_control_daemon() -> None:
    simulated = SimulatedMps("/run", MpsConfig(True))
    assert simulated.access([ONE]).pipes == "/run/mps"
    assert simulated.rows() == [] and simulated.empty_pipes is None
    with pytest.raises(Refused, match="without a control daemon"):
        simulated.turn_on([ONE])
    with pytest.raises(Refused, match="without a control daemon"):
        simulated.turn_off([ONE], force=True)


# ------------------------------------------------------------------ the settings


@pytest.mark.parametrize(
    "text, expected",
    [
        ("enabled = true", MpsConfig(True)),
        ("enabled = []", MpsConfig()),
        ('enabled = [0, 3, "GPU-1a2b3c4d"]', MpsConfig(True, ("0", "3", "GPU-1a2b3c4d"))),
        ("active_thread_percentage = 50", MpsConfig(active_thread_percentage=50)),
        ("multiuser = true", MpsConfig(multiuser=True)),
    ],
)
def test_settings_and_their_way_back(text: str, expected: MpsConfig) -> None:
    config = parse_config(f"[mps]\n{text}", "x")
    assert config.mps == expected
    again = with_set(config, "policy=lug")
    assert again.mps == expected
    assert set(config.to_table()["mps"]) == set(Config().to_table()["mps"])


def test_a_gpu_that_appears_while_the_keepers_are_listed_breaks_nothing(
    faked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reading thread adds a keeper for a new GPU; commands list the keepers meanwhile."""
    service, _, _ = served()
    service.listed(GPUS)
    row, new = module._row, iter(range(2, 99))

    def row_while_a_gpu_appears(*found: Any) -> dict[str, Any]:
        index = next(new)
        service.listed((*GPUS, gpu(f"GPU-{index}", index)))
        return row(*found)

    monkeypatch.setattr(module, "_row", row_while_a_gpu_appears)
    assert len(service.rows()) == len(GPUS)
    assert len(service.rows()) == 2 * len(GPUS)
