"""The text of a placement, and the environment of its tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from radrm.core.records import Device, Job, Placement, Share
from radrm.core.words import Collocation, DeviceKind, Resizing
from radrm.daemon.elastic.placements import placement_text, shares_text
from radrm.daemon.launching import task_environments
from radrm.errors import Refused
from radrm.host.mps.interface import Access
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
    **site: Any,
) -> dict[tuple[str, int], dict[str, str]]:
    options = SimpleNamespace(env=tuple((own or {}).items()), device_ids=None)
    submission: Any = SimpleNamespace(
        envelope=SimpleNamespace(environment=dict(submitted or {})),
        job_file=lambda: SimpleNamespace(options=options),
    )
    place: Any = SimpleNamespace(**{"mps": None, "device_ids": "uuid", **site})
    order = [DEVICES[2], DEVICES[0], DEVICES[1]]
    return task_environments(a_job(), Placement(SHARES, mode), cap_mib, submission, order, place)


def test_each_task_sees_its_own_gpus_and_cpus() -> None:
    found = environments()
    assert found == {
        ("main", 0): {
            "CUDA_VISIBLE_DEVICES": "GPU-2",
            "NVIDIA_VISIBLE_DEVICES": "GPU-2",
            "RADRM_GPUS": "3",
            "RADRM_GPU_MEMORY_MIB": "2048",
            "RADRM_CPUS": "2.5",
            "OMP_NUM_THREADS": "2",
            "PYTHON_CPU_COUNT": "2",
        },
        ("main", 1): {
            "CUDA_VISIBLE_DEVICES": "GPU-0,GPU-1",
            "NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-1",
            "RADRM_GPUS": "3",
            "RADRM_GPU_MEMORY_MIB": "1024",
            "RADRM_CPUS": "4",
            "OMP_NUM_THREADS": "4",
            "PYTHON_CPU_COUNT": "4",
        },
    }
    assert environments(device_ids="index")["main", 1]["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_what_the_user_has_set_stays() -> None:
    found = environments(submitted={"OMP_NUM_THREADS": "1"}, own={"CUDA_VISIBLE_DEVICES": "7"})
    assert not {"OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"} & found["main", 0].keys()
    assert found["main", 0]["PYTHON_CPU_COUNT"] == "2"


def test_each_task_is_a_client_of_mps_with_its_own_cap() -> None:
    asked: list[list[str]] = []

    def access(uuids: list[str]) -> Access:
        asked.append(uuids)
        return Access("/pipes", "/logs", {uuid: n for n, uuid in enumerate(uuids)}, 50)

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
    ("device", "spans", "cuda", "containers"),
    [
        (GPU_5, None, "5", "5"),
        (GPU_5, False, "0", "GPU-5"),  # the only GPU of its control daemon
        (GPU_5, True, "GPU-5", "GPU-5"),
        (INSTANCE, None, "MIG-1", "MIG-1"),  # its GPU's number would be the first instance
        (INSTANCE, False, "MIG-1", "MIG-1"),
    ],
)
def test_who_asks_for_an_index_gets_it_where_it_is_sure(
    device: Device, spans: bool | None, cuda: str, containers: str
) -> None:
    share = Share(device.uuid, 1024)
    options = SimpleNamespace(env=(), device_ids="index")
    submission: Any = SimpleNamespace(
        envelope=SimpleNamespace(environment={}),
        job_file=lambda: SimpleNamespace(options=options),
    )
    mode, mps = Collocation.TIMESLICE, None
    if spans is not None:
        access = Access("/pipes", None, {device.uuid: 0})
        mode = Collocation.MPS
        mps = SimpleNamespace(access=lambda uuids: access, empty_pipes=None, spans=spans)
    site: Any = SimpleNamespace(mps=mps, device_ids="uuid")
    found = task_environments(a_job(), Placement((share,), mode), 512, submission, [device], site)[
        "main", 0
    ]
    assert found["CUDA_VISIBLE_DEVICES"] == cuda
    assert found["NVIDIA_VISIBLE_DEVICES"] == containers
    assert found.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT") == (None if spans is None else "0=512M")


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
