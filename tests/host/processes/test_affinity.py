"""The CPUs near a job's GPUs, and processes that are bound to them."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import Device
from radrm.host.processes.affinity import bind, listed, near, numbers

ALLOWED = range(64)


def gpus(*cpus: tuple[str | None, str | None]) -> list[Device]:
    """GPUs with the CPUs of their NUMA node and of their socket."""
    return [
        Device(f"GPU-{n}", n, "A100", 40960, numa_cpus=numa, socket_cpus=socket)
        for n, (numa, socket) in enumerate(cpus)
    ]


FIRST, SECOND = ("0-7", "0-31"), ("48-55", "32-63")


@pytest.mark.parametrize(
    ("devices", "scope", "cpus", "found"),
    [
        ([FIRST], "socket", None, "0-31"),
        ([FIRST], "numa", None, "0-7"),
        ([FIRST], "none", None, None),
        # Of several GPUs, the CPUs near any.
        ([FIRST, SECOND], "numa", None, "0-7,48-55"),
        # Those of both sockets are all that there are.
        ([FIRST, SECOND], "socket", None, None),
        # As many as it asks for: else those of the socket, else all.
        ([FIRST], "numa", 8.0, "0-7"),
        ([FIRST], "numa", 8.5, "0-31"),
        ([FIRST], "numa", 33.0, None),
        ([FIRST], "socket", 33.0, None),
        # Unknown for one GPU is unknown for all.
        ([FIRST, (None, None)], "numa", None, None),
        ([(None, "0-31")], "numa", None, "0-31"),
        # No GPU.
        ([], "socket", 4.0, None),
        # CPUs that the daemon may not use.
        ([("60-70", "60-99")], "socket", None, "60-63"),
        ([("70-80", "70-80")], "socket", None, None),
    ],
)
def test_the_cpus_of_a_job(
    devices: list[tuple[str | None, str | None]], scope: str, cpus: float | None, found: str | None
) -> None:
    cpu_list = near(gpus(*devices), scope, cpus, ALLOWED)
    assert (None if cpu_list is None else listed(cpu_list)) == found


@given(st.sets(st.integers(0, 300)))
def test_a_list_as_the_kernel_writes_it(cpus: set[int]) -> None:
    assert numbers(listed(cpus)) == cpus


def test_the_form_of_a_list() -> None:
    assert listed([3, 1, 2, 7, 64, 65]) == "1-3,7,64-65"


def test_a_process_and_its_children_are_bound() -> None:
    cpu = max(os.sched_getaffinity(0))
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            assert bind(process.pid, [cpu]) == [cpu]
            assert os.sched_getaffinity(process.pid) == {cpu}
        finally:
            process.kill()


@pytest.mark.parametrize("cpus", [None, [], [100_000], [-1], ["0"], "0-1", 3, {"a": 1}])
def test_what_the_kernel_refuses_binds_nothing(cpus: Any) -> None:
    before = os.sched_getaffinity(0)
    assert bind(os.getpid(), cpus) is None
    assert os.sched_getaffinity(0) == before
