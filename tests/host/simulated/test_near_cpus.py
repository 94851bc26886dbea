"""Simulated NUMA nodes divide the CPUs of the real server among them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import to_builtins
from pytest_mock import MockerFixture

from radrm.host.simulated.simulated_gpus import SimulatedGpus
from radrm.simulated.spec import parse


@pytest.mark.parametrize(
    ("spec", "cpus", "lists"),
    [
        ("sim:4xH100:numa=2", range(8), ["0-3", "0-3", "4-7", "4-7"]),
        ("sim:3xH100:numa=1", range(8), ["0-1", "2-4", "5-7"]),
        # More nodes than CPUs.
        ("sim:3xH100:numa=1", [5], [None, None, "5"]),
        ("sim:2xH100", range(8), [None, None]),
    ],
)
def test_the_cpus_near_simulated_gpus(
    spec: str, cpus: range | list[int], lists: list[str | None], mocker: MockerFixture
) -> None:
    mocker.patch("os.sched_getaffinity", return_value=set(cpus))
    told: Any = json.loads(json.dumps(to_builtins([each.device for each in parse(spec)])))
    mocker.patch.object(SimulatedGpus, "_ask", return_value={"devices": told})
    devices = SimulatedGpus("").devices()
    assert [device.socket_cpus for device in devices] == lists
    assert [device.numa_cpus for device in devices] == lists
    assert {device.nvlinks for device in devices} == {()}
