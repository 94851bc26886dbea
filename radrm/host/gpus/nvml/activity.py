"""The SM activity of each process on a GPU, to divide the energy of jobs that share it.

The driver keeps samples of the last seconds, and returns those after a time that the caller
gives. So the first call only learns that time. A process without a sample was idle. Some drivers
return impossible samples beside good ones; those are dropped.

Unknown for a MIG instance, on GPUs before Maxwell, and under an MPS server whose clients the
driver does not tell apart: it then counts their work as the server's.
"""

from __future__ import annotations

from dataclasses import replace

from radrm.core.records import AttemptMemory
from radrm.host.gpus.nvml import words
from radrm.host.gpus.nvml.library import Library
from radrm.host.gpus.nvml.listing import Place
from radrm.host.gpus.source import OwnerOf
from radrm.host.processes.procfs import start_of

_PERCENT = 100
_AHEAD_US = 60_000_000
"""A sample so far in the future has an impossible time."""
_NO_SAMPLES = frozenset({0, words.NOT_FOUND})


class Activity:
    """Remembers until when the samples of each GPU have been read."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._until_us: dict[str, int] = {}

    def add(
        self, attempts: tuple[AttemptMemory, ...], place: Place, wall_s: float, owner_of: OwnerOf
    ) -> tuple[AttemptMemory, ...]:
        """Return the attempts on a device with the SM activity of their processes."""
        shown = self._read(place, wall_s) if len(attempts) > 1 else None
        if shown is None:
            return attempts
        sums: dict[tuple[int, int], float] = {}
        for pid, smact in shown.items():
            owner = owner_of(pid)
            if owner is not None:
                sums[owner] = sums.get(owner, 0.0) + smact
            elif _is_mps_server(pid):
                return attempts
        return tuple(
            replace(each, smact=min(1.0, sums.get((each.job_id, each.serial), 0.0)))
            for each in attempts
        )

    def _read(self, place: Place, wall_s: float) -> dict[int, float] | None:
        """Return the SM activity (0..1) by process since the last call; None if unknown."""
        if place.is_instance:
            return None
        uuid = place.gpu_uuid
        since_us = self._until_us.get(uuid)
        given = place.handle, since_us or 0
        try:
            samples = self._library.call("nvmlDeviceGetProcessUtilization", *given)
        except self._library.Error as error:
            if error.value not in _NO_SAMPLES:
                return None
            samples = []
        most_us = wall_s * 1e6 + _AHEAD_US
        times = [s.timeStamp for s in samples if s.timeStamp <= most_us]
        self._until_us[uuid] = max([since_us or 0, *times])
        if since_us is None and samples:
            return None
        found: dict[int, list[int]] = {}
        for sample in samples:
            if (since_us or 0) < sample.timeStamp <= most_us and sample.smUtil <= _PERCENT:
                found.setdefault(sample.pid, []).append(sample.smUtil)
        return {pid: sum(each) / len(each) / _PERCENT for pid, each in found.items()}


def _is_mps_server(pid: int) -> bool:
    # The kernel keeps 15 characters of a name.
    return start_of(f"/proc/{pid}/comm", 64).startswith(b"nvidia-cuda-mps")
