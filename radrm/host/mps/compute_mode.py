"""Set the compute mode of GPUs under MPS, and restore it.

Theory of operation. NVIDIA recommends EXCLUSIVE_PROCESS with MPS: only the MPS server can then
use the GPU, and no other process can join it. A job that is no client could not run at all. So
radrm sets the mode before a client starts and restores it before any other job starts. A file
has the earlier modes; it is written before the driver is told, so a `kill -9` between the two
loses no mode. A restart reads the file and restores the modes.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterable

from radrm.host.gpus.nvml.library import query
from radrm.host.storage.files import write_durably

log = logging.getLogger("radrm")

DEFAULT, EXCLUSIVE_PROCESS = 0, 3
_MODES = range(4)


class ComputeModes:
    """The compute modes that radrm has set; `file` has the modes from before.

    `get` reads and `put` sets the mode of a GPU; both may raise anything. An error is logged
    once per GPU, and jobs share the GPU in the mode that it has.
    """

    def __init__(
        self, file: str, get: Callable[[str], int], put: Callable[[str, int], None]
    ) -> None:
        self._file = file
        self._get = get
        self._put = put
        self._before = self._remembered()
        self._logged: set[str] = set()

    def exclusive(self, uuids: Iterable[str]) -> None:
        """Set EXCLUSIVE_PROCESS on these GPUs, for MPS clients."""
        for uuid in uuids:
            if uuid in self._before:
                continue
            try:
                mode = self._get(uuid)
                if mode != EXCLUSIVE_PROCESS:
                    self._remember({**self._before, uuid: mode})
                    self._put(uuid, EXCLUSIVE_PROCESS)
            except Exception as error:
                self._complain(uuid, "cannot be set to EXCLUSIVE_PROCESS", error)
                with contextlib.suppress(OSError):
                    self._remember({k: v for k, v in self._before.items() if k != uuid})

    def restore(self, uuids: Iterable[str] | None = None) -> None:
        """Restore the earlier mode of these GPUs, or of all."""
        for uuid in list(self._before) if uuids is None else list(uuids):
            if uuid not in self._before:
                continue
            try:
                self._put(uuid, self._before[uuid])
                self._remember({k: v for k, v in self._before.items() if k != uuid})
                self._logged.discard(uuid)
            except Exception as error:
                self._complain(uuid, "cannot get its earlier compute mode back", error)

    def _complain(self, uuid: str, what: str, error: Exception) -> None:
        if uuid not in self._logged:
            log.error("%s %s: %s; as root: nvidia-smi -c DEFAULT", uuid, what, error)
            self._logged.add(uuid)

    def _remembered(self) -> dict[str, int]:
        try:
            with open(self._file, "rb") as file:
                found = json.loads(file.read())
            return {uuid: _mode(mode) for uuid, mode in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
            log.error(
                "%s cannot be read (%s), so no mode is restored; check: nvidia-smi -q -d COMPUTE",
                self._file,
                error,
            )
            return {}

    def _remember(self, before: dict[str, int]) -> None:
        """Write the earlier modes to disk. Raises `OSError`."""
        if before == self._before:
            return
        if before:
            write_durably(self._file, json.dumps(before).encode("ascii"))
        elif os.path.exists(self._file):
            os.unlink(self._file)
        self._before = before


def _mode(value: object) -> int:
    if type(value) is not int or value not in _MODES:
        raise ValueError("a compute mode is not a number from 0 to 3")
    return value


def driver_compute_modes(file: str) -> ComputeModes:
    """Return the compute modes of the NVIDIA driver. Changing them needs root."""

    def get(uuid: str) -> int:
        return int(query(lambda nvml, gpu: nvml.nvmlDeviceGetComputeMode(gpu), uuid))

    def put(uuid: str, mode: int) -> None:
        query(lambda nvml, gpu: nvml.nvmlDeviceSetComputeMode(gpu, mode), uuid)

    return ComputeModes(file, get, put)
