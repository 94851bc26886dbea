"""The compute mode of GPUs under MPS: one process per GPU, the MPS server; and given back.

EXCLUSIVE_PROCESS is NVIDIA's recommendation with MPS: a process that is no client cannot come
beside the server. A job that is no client could not run at all then, so the mode goes with
the jobs: set before a client starts, given back before any other does. What a GPU had before
lies in a file, so that it is given back even after a `kill -9`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterable

from radrm.host.mps.driver import asked
from radrm.host.storage.files import write_durably

log = logging.getLogger("radrm")

DEFAULT, EXCLUSIVE_PROCESS = 0, 3


class ComputeModes:
    """The compute modes that this daemon has set. `file` remembers what was there before.

    `get` and `put` ask and tell the driver; both may raise anything. What fails is said
    once per GPU: sharing goes on in the mode that there is.
    """

    def __init__(
        self, file: str, get: Callable[[str], int], put: Callable[[str, int], None]
    ) -> None:
        self._file = file
        self._get = get
        self._put = put
        self._before = self._remembered()
        self._said: set[str] = set()

    def exclusive(self, uuids: Iterable[str]) -> None:
        """These GPUs are for MPS clients now."""
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

    def give_back(self, uuids: Iterable[str] | None = None) -> None:
        """These GPUs, or all, get the mode that they had."""
        for uuid in list(self._before) if uuids is None else list(uuids):
            if uuid not in self._before:
                continue
            try:
                self._put(uuid, self._before[uuid])
                self._remember({k: v for k, v in self._before.items() if k != uuid})
                self._said.discard(uuid)
            except Exception as error:
                self._complain(uuid, "cannot be given back its compute mode", error)

    def _complain(self, uuid: str, what: str, error: Exception) -> None:
        if uuid not in self._said:
            log.error("%s %s: %s; as root: nvidia-smi -c DEFAULT", uuid, what, error)
            self._said.add(uuid)

    def _remembered(self) -> dict[str, int]:
        try:
            with open(self._file, "rb") as file:
                found = json.loads(file.read())
            return {str(uuid): int(mode) for uuid, mode in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError, TypeError) as error:
            log.error("%s cannot be read (%s); see nvidia-smi -q -d COMPUTE", self._file, error)
            return {}

    def _remember(self, before: dict[str, int]) -> None:
        """On disk before the driver is told. Raises `OSError`."""
        if before == self._before:
            return
        if before:
            write_durably(self._file, json.dumps(before).encode("ascii"))
        elif os.path.exists(self._file):
            os.unlink(self._file)
        self._before = before


def of_driver(file: str) -> ComputeModes:
    """Those of the NVIDIA driver. It needs root to change them."""

    def get(uuid: str) -> int:
        return int(asked(lambda nvml, gpu: nvml.nvmlDeviceGetComputeMode(gpu), uuid))

    def put(uuid: str, mode: int) -> None:
        asked(lambda nvml, gpu: nvml.nvmlDeviceSetComputeMode(gpu, mode), uuid)

    return ComputeModes(file, get, put)
