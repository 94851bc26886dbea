"""The text of a placement, and the environment of its tasks."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from radrm.core.records import Device, Job, Placement, Share
from radrm.core.words import Collocation, DeviceKind, Resizing
from radrm.daemon.elastic import placement_text, shares_text
from radrm.daemon.launching import Given, task_environments
from radrm.errors import Refused
from radrm.host.isolation import Isolation, Numbers
from radrm.host.mps.interface import Access
from radrm.jobfile.inherited import SET_FOR_TASK, named_in
from radrm.structs import replace
from tests.world import GIB, World, gpus

DEVICES = gpus(3)
SHARES = (
    Share("GPU-2", 2048, cpus=2.5),
    Share("GPU-0", 1024, task=1, cpus=4.0),
    Share("GPU-1", 1024, task=1, cpus=4.0),
)


def a_job() -> Job:
    return World(gpus(1)).submit(GIB, resizing=Resizing.LIVE)


def environments(
    mode: Collocation = Collocation.TIMESLICE,
    cap_mib: int | None = None,
    submitted: Mapping[str, str] | None = None,
    own: Mapping[str, str] | None = None,
    bind: str | None = None,
    devices: Sequence[Device] = DEVICES,
    **site: Any,
) -> dict[tuple[str, int], dict[str, str]]:
    options = SimpleNamespace(env=tuple((own or {}).items()), device_ids=None, cpu_bind=bind)
    submission: Any = SimpleNamespace(
        envelope=SimpleNamespace(environment=dict(submitted or {})),
        job_file=lambda: SimpleNamespace(options=options),
    )
    usual = {"mps": None, "device_ids": "uuid", "cpu_bind": "socket", "isolation": Isolation()}
    place: Any = SimpleNamespace(**{**usual, **site})
    order = [devices[2], devices[0], devices[1]]
    found = task_environments(a_job(), Placement(SHARES, mode), cap_mib, submission, order, place)
    for variables in found.values():
        lists = {SET_FOR_TASK: variables.pop(SET_FOR_TASK)}
        assert named_in(variables | lists, SET_FOR_TASK) == variables
    return found


def test_each_task_sees_its_own_gpus_and_cpus() -> None:
    found = environments()
    assert found == {
        ("main", 0): {
            "CUDA_VISIBLE_DEVICES": "GPU-2",
            "NVIDIA_VISIBLE_DEVICES": "GPU-2",
            "RADRM_GPUS": "3",
            "RADRM_GPU_MEMORY_MIB": "2048",
            "RADRM_CPUS": "2.5",
            "RADRM_CPU_LIST": "",
            "OMP_NUM_THREADS": "2",
            "PYTHON_CPU_COUNT": "2",
        },
        ("main", 1): {
            "CUDA_VISIBLE_DEVICES": "GPU-0,GPU-1",
            "NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-1",
            "RADRM_GPUS": "3",
            "RADRM_GPU_MEMORY_MIB": "1024",
            "RADRM_CPUS": "4",
            "RADRM_CPU_LIST": "",
            "OMP_NUM_THREADS": "4",
            "PYTHON_CPU_COUNT": "4",
        },
    }
    assert environments(device_ids="index")["main", 1]["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_each_task_is_told_the_cpus_near_its_own_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(32)))
    sockets = ("0-7", "0-7", "16-23")
    devices = [replace(d, socket_cpus=s) for d, s in zip(DEVICES, sockets, strict=True)]

    def lists(**changes: Any) -> list[str]:
        found = environments(devices=devices, **changes)
        return [found["main", task]["RADRM_CPU_LIST"] for task in (0, 1)]

    assert lists() == ["16-23", "0-7"]
    assert lists(bind="none") == lists(cpu_bind="none") == ["", ""]
    assert lists(cpu_bind="none", bind="socket") == ["16-23", "0-7"]


def test_what_the_user_has_set_stays() -> None:
    found = environments(submitted={"OMP_NUM_THREADS": "1"}, own={"CUDA_VISIBLE_DEVICES": "7"})
    assert not {"OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"} & found["main", 0].keys()
    assert found["main", 0]["PYTHON_CPU_COUNT"] == "2"


def test_each_task_is_a_client_of_mps_with_its_own_cap() -> None:
    asked: list[list[str]] = []

    def access(uuids: list[str]) -> Access:
        asked.append(uuids)
        return Access("/pipes", "/logs", 50)

    mps = SimpleNamespace(access=access, empty_pipes=None)
    found = environments(Collocation.MPS, 1000, mps=mps)
    assert asked == [["GPU-2"], ["GPU-0", "GPU-1"]]
    its = found["main", 1]
    assert its["CUDA_MPS_PIPE_DIRECTORY"] == "/pipes"
    assert its["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=1000M,1=1000M"
    assert its["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"


GPU_5 = replace(DEVICES[0], uuid="GPU-5", index=5)
INSTANCE = replace(DEVICES[0], uuid="MIG-1", index=5, kind=DeviceKind.MIG, parent="GPU-5")


@pytest.mark.parametrize(
    ("device", "client", "cuda", "containers"),
    [
        (GPU_5, False, "5", "5"),
        (GPU_5, True, "0", "GPU-5"),  # the only GPU of its control daemon
        (INSTANCE, False, "MIG-1", "MIG-1"),  # its GPU's number would be the first instance
        (INSTANCE, True, "MIG-1", "MIG-1"),
    ],
)
def test_who_asks_for_an_index_gets_it_where_it_is_sure(
    device: Device, client: bool, cuda: str, containers: str
) -> None:
    share = Share(device.uuid, 1024)
    options = SimpleNamespace(env=(), cpu_bind="none", device_ids="index")
    submission: Any = SimpleNamespace(
        envelope=SimpleNamespace(environment={}),
        job_file=lambda: SimpleNamespace(options=options),
    )
    mode, mps = Collocation.TIMESLICE, None
    if client:
        access = Access("/pipes", None)
        mode = Collocation.MPS
        mps = SimpleNamespace(access=lambda uuids: access, empty_pipes=None)
    site: Any = SimpleNamespace(mps=mps, device_ids="uuid", isolation=Isolation())
    found = task_environments(a_job(), Placement((share,), mode), 512, submission, [device], site)[
        "main", 0
    ]
    assert found["CUDA_VISIBLE_DEVICES"] == cuda
    assert found["NVIDIA_VISIBLE_DEVICES"] == containers
    assert found.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT") == ("0=512M" if client else None)


def test_an_isolated_job_counts_only_its_own_gpus() -> None:
    """CUDA numbers what a process can open; container engines number all."""
    own = [replace(GPU_5, minor=2), replace(DEVICES[1], index=3, minor=0)]
    shares = tuple(Share(each.uuid, 1024) for each in own)
    placement = Placement(shares, Collocation.TIMESLICE)
    options: Any = SimpleNamespace(device_ids="index", cpu_bind="none")
    site: Any = SimpleNamespace(mps=None, device_ids="uuid", isolation=Isolation(None, Numbers()))
    given = Given(a_job(), placement, None, options, own, site)
    found = given.variables(shares, own, live=False)
    assert found["CUDA_VISIBLE_DEVICES"] == "1,0"
    assert found["NVIDIA_VISIBLE_DEVICES"] == "GPU-5,GPU-1"
    found = given.variables(shares, own, live=True)
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-5,GPU-1", "it may have other GPUs soon"


# ------------------------------------------------------------------ texts


def test_the_text_of_a_placement() -> None:
    its = {("main", 0): {"A": "b"}, ("main", 1): {}}
    text = placement_text(Placement(SHARES, Collocation.MPS), 4, its, 30.0, 99.5, "boot")
    assert json.loads(text) == {
        "version": 1,
        "generation": 4,
        "grace_s": 30.0,
        "due_boot_s": 99.5,
        "boot_id": "boot",
        "tasks": [
            {"role": "main", "task": 0, "gpus": ["GPU-2"], "cpus": 2.5, "environment": {"A": "b"}},
            {"role": "main", "task": 1, "gpus": ["GPU-0", "GPU-1"], "cpus": 4.0, "environment": {}},
        ],
    }
    assert json.loads(shares_text(SHARES))["tasks"] == [
        {"role": "main", "task": 0, "cpus": 2.5},
        {"role": "main", "task": 1, "cpus": 4.0},
    ]


@pytest.mark.parametrize(("tasks", "length"), [(257, 1), (200, 2000)])
def test_a_placement_that_is_too_long_is_refused(tasks: int, length: int) -> None:
    shares = tuple(replace(SHARES[0], device=None, task=n) for n in range(tasks))
    its = {("main", n): {"A": "b" * length} for n in range(tasks)}
    with pytest.raises(Refused, match=f"{tasks} tasks are more than one launcher can be told of"):
        placement_text(Placement(shares, Collocation.EXCLUSIVE), 1, its, 30.0, None, "boot")
