"""Fixtures for tests with GPUs."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm.host.mps.control import PID_FILE, Control
from tests.daemon.gpus.dgx import Dgx
from tests.standins.nvml_library import Nvml


@pytest.fixture
def dgx(nvml_driver: Nvml) -> Iterator[Dgx]:
    # Under /tmp itself: the address of a socket holds 107 bytes.
    with tempfile.TemporaryDirectory(prefix="dgx-") as folder:
        made = Dgx(Path(folder), nvml_driver)
        yield made
        try:
            made.close()
        finally:
            for file in made.folder.glob(f"home/run/mps/*/{PID_FILE}"):
                who = Control(str(file.parent), "").process()
                if who is not None:
                    os.kill(who.pid, signal.SIGKILL)
