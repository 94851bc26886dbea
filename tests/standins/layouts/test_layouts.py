"""Servers with GPUs of seven models, as NVIDIA's mock of NVML shows them.

The recordings are always played. With RADRM_MOCK_NVML=FOLDER, a folder with the mock as it is
built, a daemon is run on each of its configurations too (CONTRIBUTING.md).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from radrm.core.records import Instant
from radrm.core.words import DeviceKind
from radrm.host.gpus import readings as module
from radrm.host.gpus.gpm import Gpm
from radrm.host.gpus.nvml import Found, NvmlGpus
from radrm.host.gpus.readings import Readings, SmActivity
from radrm.host.health import gpus as health
from tests.daemon.harness import DaemonHome
from tests.standins.layouts import record
from tests.standins.layouts.recorded import Player, layouts
from tests.standins.layouts.seen import SEEN, repeated
from tests.waiting import wait_until

MOCK = os.environ.get("RADRM_MOCK_NVML")


def test_each_model_is_recorded() -> None:
    assert layouts() == sorted(SEEN)


@pytest.mark.parametrize("model", SEEN)
def test_a_recorded_server(
    model: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seen = SEEN[model]
    # The first sample comes with the second round, or never.
    monkeypatch.setattr(module, "PATIENCE_S", {"gpm": 600.0 if seen.counters else 0.0})
    caplog.set_level("INFO", "radrm")
    clock = iter(range(1000))
    base = NvmlGpus(Player(model))
    feed = Gpm(base, lambda: float(next(clock)))
    gpus = Readings(base, SmActivity([feed], required=False))
    devices = gpus.devices()
    assert base.problems == ()
    assert [(d.index, d.kind) for d in devices] == [(n, DeviceKind.GPU) for n in range(seen.gpus)]
    assert len({device.uuid for device in devices}) == seen.gpus
    same = {(d.name, d.total_mib, d.overhead_mib, d.nvlink_group) for d in devices}
    link = 0 if seen.nvlink else None
    assert same == {(seen.name, seen.total_mib, seen.overhead_mib, link)}
    for second in range(3):
        at = Instant(float(second), float(second))
        found = gpus.read([device.uuid for device in devices], at, lambda pid: None)
    for reading in found:
        assert (reading.error, reading.fault, reading.notes) == (None, None, ())
        assert (reading.used_mib, reading.attempts, reading.unmanaged) == (0, (), ())
        assert (reading.smact, reading.power_w) == (0.0, seen.idle_w)
        assert reading.smact_source == ("gpm" if seen.counters else "nvml-utilization")
        assert reading.smact_coarse != seen.counters
    assert repeated(caplog.messages) == []
    assert len(caplog.messages) == 1, "one line says where SM activity comes from"
    gpus.close()


@pytest.mark.parametrize("model", SEEN)
def test_doctor_knows_a_recorded_server(model: str) -> None:
    player, seen = Player(model), SEEN[model]
    driver = health.look(player, Found(NvmlGpus(player)))
    assert driver.errors == ()
    assert health.devices(driver, hardware=True).finding == f"{seen.gpus} x {seen.name}"


# ------------------------------------------------------------------ the mock itself


@pytest.mark.daemon
@pytest.mark.skipif(MOCK is None, reason="RADRM_MOCK_NVML names no build of NVIDIA's mock of NVML")
@pytest.mark.parametrize("model", SEEN)
def test_a_daemon_on_the_mock(model: str, home: DaemonHome) -> None:
    seen = SEEN[model]
    home.gpus = None
    home.environment |= record.environment(Path(str(MOCK)), model)
    home.start()
    rows = home.ask("gpus")
    assert [row["name"] for row in rows] == [seen.name] * seen.gpus
    assert {row["total_mib"] for row in rows} == {seen.total_mib}
    source = "gpm" if seen.counters else "nvml-utilization"
    rows = wait_until(lambda: _all_from(source, home), f"readings from {source}")
    assert {row["smact"] for row in rows} == {0.0}
    assert {row["free_mib"] for row in rows} == {seen.total_mib - seen.overhead_mib}
    assert {row["power_w"] for row in rows} == {seen.idle_w}
    said = "SM activity comes from gpm" if seen.counters else "is read only coarsely"
    wait_until(lambda: said in home.said(), "where SM activity comes from")
    lines = [line.partition(" ")[2].partition(" ")[2] for line in home.said().splitlines()]
    assert repeated(lines) == []


@pytest.mark.skipif(MOCK is None, reason="RADRM_MOCK_NVML names no build of NVIDIA's mock of NVML")
def test_the_mock_has_no_other_model() -> None:
    assert record.models(Path(str(MOCK))) == sorted(SEEN)


def _all_from(source: str, home: DaemonHome) -> list[dict[str, object]] | None:
    rows: list[dict[str, object]] = home.ask("gpus")
    return rows if all(row["smact_source"] == source for row in rows) else None
