"""A connection to the simulated driver, as a job's CUDA context or to ask questions.

A client sends a request only after the answer to the previous one. Every simulated job imports
this file, so import nothing heavier than `json` and `socket` here.
"""

from __future__ import annotations

import json
import os
from collections import namedtuple
from typing import Any

from radrm.errors import DeviceError
from radrm.host.sockets import connect

EXIT_LOCKED = 3
"""The exit code of a driver that has found another one running."""


class OutOfGpuMemory(Exception):
    """A refused allocation. `position` is the device's number among the context's own, from 0.

    All sizes are MiB of that device: the request, the free memory, the memory for jobs, and the
    memory of this process.
    """

    def __init__(
        self, position: int, requested_mib: int, free_mib: int, total_mib: int, held_mib: int
    ) -> None:
        super().__init__(f"{requested_mib} MiB wanted on device {position}, {free_mib} MiB free")
        self.position = position
        self.requested_mib = requested_mib
        self.free_mib = free_mib
        self.total_mib = total_mib
        self.held_mib = held_mib


class Hello(
    namedtuple("Hello", ("pid", "spec", "scale", "anchor_boot_s", "anchor_wall_s", "jobs"))
):
    """The driver's process, spec and clock, and the number of attached jobs."""

    __slots__ = ()
    pid: int
    spec: str
    scale: float
    anchor_boot_s: float
    anchor_wall_s: float
    jobs: int


class DriverClient:
    """One connection. Its end, also by the process's death, frees all its memory.

    Raises Unreachable if no driver listens at the path. Every method raises DeviceError if the
    driver refuses, ends, or does not answer within `timeout_s` real seconds.
    """

    def __init__(self, path: str | os.PathLike[str], timeout_s: float = 30.0) -> None:
        self._path = os.fspath(path)
        self._sock = connect(path, timeout_s)
        self._lines = self._sock.makefile("rb")

    def hello(self) -> Hello:
        return Hello(**self.ask("hello"))

    def attach(
        self,
        devices: str | None,
        smact: float,
        family: str | None = None,
        batch_size: int | None = None,
        mps: bool = False,
        cap_mib: int | None = None,
        gpus: int = 1,
    ) -> list[str]:
        """Become a context on the first `gpus` visible devices; return their UUIDs.

        `devices` is CUDA_VISIBLE_DEVICES, None if it is not set. `smact` is the solo SM activity
        (0..1) on each device.
        """
        answer = self.ask(
            "attach",
            visible=devices,
            gpus=gpus,
            smact=smact,
            family=family,
            batch_size=batch_size,
            mps=mps,
            cap_mib=cap_mib,
        )
        return [str(uuid) for uuid in answer["devices"]]

    def alloc(self, mib: int) -> None:
        """Allocate `mib` on each device, or on none. Raises OutOfGpuMemory."""
        self.ask("alloc", mib=mib)

    def free(self, mib: int) -> None:
        self.ask("free", mib=mib)

    def start(self) -> None:
        """Start the work. From now on this job and its neighbours slow one another down."""
        self.ask("start")

    def work(self) -> float:
        """The solo seconds computed so far, on the driver's scaled clock."""
        return float(self.ask("work")["done_s"])

    def ask(self, op: str, **fields: object) -> dict[str, Any]:
        """Send one request and wait for its answer."""
        try:
            self._sock.sendall(json.dumps({"op": op, **fields}).encode() + b"\n")
            line = self._lines.readline()
        except OSError as error:
            raise self._lost_connection(error) from error
        if not line.endswith(b"\n"):
            raise self._lost_connection("the driver closed it")
        answer: dict[str, Any] = json.loads(line)
        if "oom" in answer:
            raise OutOfGpuMemory(**answer["oom"])
        if "error" in answer:
            raise DeviceError(answer["error"])
        return answer

    def close(self) -> None:
        self._lines.close()
        self._sock.close()

    def _lost_connection(self, cause: object) -> DeviceError:
        return DeviceError(
            f"the connection to the simulated GPU driver at {self._path} is broken: {cause}"
        )
