"""Only the GPUs that `gpus.only` names, until `gpus.until`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pytest

from radrm.config import GpusConfig
from radrm.core.records import Device, Instant, Reading
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError
from radrm.host.gpus.readings import Readings, served
from radrm.host.gpus.source import GpuSource, OwnerOf


class Three(GpuSource):
    """Two GPUs, the second in MIG mode with two instances."""

    name = "three"

    def __init__(self) -> None:
        self.closed = False

    def devices(self) -> tuple[Device, ...]:
        mig = DeviceKind.MIG
        return (
            Device("GPU-aaaaaaaa", 0, "A100", 40960),
            Device("MIG-bbbbbbbb", 1, "A100 1g", 5120, kind=mig, parent="GPU-cccccccc"),
            Device("MIG-dddddddd", 2, "A100 1g", 5120, kind=mig, parent="GPU-cccccccc"),
        )

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        return ()

    def close(self) -> None:
        self.closed = True


SERVED = [
    ((), ["GPU-aaaaaaaa", "MIG-bbbbbbbb", "MIG-dddddddd"]),
    (("0",), ["GPU-aaaaaaaa"]),
    (("GPU-aaaa",), ["GPU-aaaaaaaa"]),
    (("GPU-cccc",), ["MIG-bbbbbbbb", "MIG-dddddddd"]),
    (("2",), ["MIG-dddddddd"]),
    (("MIG-bbbb", "0"), ["GPU-aaaaaaaa", "MIG-bbbbbbbb"]),
    (("GPU-aaaa", "GPU-nowhere"), ["GPU-aaaaaaaa"]),
]


@pytest.mark.parametrize("only, uuids", SERVED)
def test_what_is_served(only: tuple[str, ...], uuids: list[str]) -> None:
    source = served(Readings(Three()), GpusConfig(only=only))
    assert [each.uuid for each in source.devices()] == uuids
    assert {each.available_until for each in source.devices()} == {None}


def test_until_when() -> None:
    source = served(Readings(Three()), GpusConfig(until="2030-01-31T18:00"))
    at = datetime(2030, 1, 31, 18).timestamp()
    assert [each.available_until for each in source.devices()] == [at] * 3
    source = served(Readings(Three()), GpusConfig(until="2030-01-31T18:00+00:00", only=("0",)))
    assert [each.available_until for each in source.devices()] == [1896112800.0]


def test_a_name_of_no_gpu_is_an_error() -> None:
    source = Three()
    with pytest.raises(DeviceError, match=r"gpus.only = \[7\] names no GPU of this server"):
        served(Readings(source), GpusConfig(only=("7",)))
    assert source.closed
