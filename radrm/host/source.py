"""What any source of GPU readings must offer, real or software."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from radrm.core.records import Device, Instant, Reading

# Says which attempt (job id, attempt number) a process belongs to; None: not one of ours.
OwnerOf = Callable[[int], "tuple[int, int] | None"]


class GpuSource(Protocol):
    """Lists and reads devices.

    `devices` and `read` may raise `DeviceError` when the source as a whole cannot
    answer; a single device that cannot be read gives a `Reading` with `error` set.
    Both may be called from a thread of their own, never from two at a time.
    """

    name: str

    def devices(self) -> tuple[Device, ...]: ...

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]: ...

    def close(self) -> None: ...
