"""What the acceptance tests need of a machine, each missing thing said in words.

They change nothing about the card (compute mode, clocks, power, MIG, persistence) and end
only what they started.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterator

import pytest

from radrm.core.records import Device, Instant
from radrm.core.words import DeviceKind
from radrm.host.gpus.nvml import NvmlGpus, find
from tests.gpu import smi, torch_python
from tests.gpu.requirements import missing, required
from tests.gpu.server import RealServer, short_folder

QUIET_MIB = 1024
"""So much may be in use on the GPU that the tests take."""

MakeServer = Callable[..., RealServer]


required()  # a word that is misspelt ends the run at once


@pytest.fixture
def gpus() -> Iterator[NvmlGpus]:
    found = find()
    if found.gpus is None:
        missing("gpu", f"no real GPU here: {found.reason}")
    yield found.gpus
    found.gpus.close()


@pytest.fixture
def rows() -> dict[str, smi.Row]:
    """The GPUs as nvidia-smi prints them."""
    found = smi.gpus()
    if not found:
        missing("smi", "no nvidia-smi that answers, to compare with")
    return found


@pytest.fixture
def device(gpus: NvmlGpus) -> Device:
    """A whole GPU that nobody uses."""
    whole = [d for d in gpus.devices() if d.kind is DeviceKind.GPU]
    readings = gpus.read([d.uuid for d in whole], Instant(0.0, 0.0), lambda pid: None)
    for found, reading in zip(whole, readings, strict=True):
        if reading.used_mib is not None and reading.used_mib <= QUIET_MIB:
            return found
    return missing("idle", "every GPU is in use, or is cut into MIG instances")


@functools.cache
def _python() -> torch_python.Found:
    return torch_python.find(os.environ)


@pytest.fixture
def python(device: Device) -> str:
    """A Python whose PyTorch sees the GPU. That there is no GPU at all is said first."""
    found = _python()
    if found.python is None:
        missing("torch", str(found.reason))
    return found.python


@pytest.fixture
def make_server(device: Device, python: str) -> Iterator[MakeServer]:
    """Starts daemons on that GPU, with settings; they end with the test."""
    made: list[RealServer] = []
    folder = short_folder()

    def make(*settings: str) -> RealServer:
        server = RealServer(folder / f"{len(made)}", device.uuid, python)
        server.settings = list(settings)
        made.append(server)
        server.start()
        return server

    yield make
    for server in made:
        server.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def server(make_server: MakeServer) -> RealServer:
    """As it is without any configuration."""
    return make_server()
