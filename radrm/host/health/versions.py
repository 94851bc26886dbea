"""Versions of the driver and of NVIDIA's tools that are known to be bad for radrm.

Each entry has its source in a comment, and only what a source says is here. A version before
`since` and one from `repaired` on are not concerned. nvidia-ml-py has no entry: radrm requires a
version that is newer than 12.535.77, whose lists of processes were wrong
(https://github.com/XuehaiPan/nvitop/issues/90).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from radrm.errors import DeviceError
from radrm.host.gpus.stream import ask
from radrm.host.health.finding import Finding, ok, warn

LIMIT_S = 5.0
"""Real seconds for the question to DCGM."""


@dataclass(frozen=True, slots=True)
class Bad:
    """Versions from `since` on are bad, until `repaired`."""

    since: str
    repaired: str
    effect: str

    def has(self, version: str) -> bool:
        return _numbers(self.since) <= _numbers(version) < _numbers(self.repaired)


DRIVER = (
    # https://github.com/XuehaiPan/nvitop/pull/89: 535.43.02 changed the structure of the answer
    # without a new version of the function, and 535.98 took that back.
    Bad("535.43.02", "535.98", "lists wrong processes, so memory is counted for wrong jobs"),
    # https://docs.nvidia.com/datacenter/tesla/tesla-release-notes-570-133-20/, "Fixed Issues".
    Bad("570", "570.133.20", "can stop the kernel where GPU accounting is on"),
)
MPS = (
    # https://docs.nvidia.com/datacenter/tesla/tesla-release-notes-535-104-05/, "Fixed Issues",
    # number 4016266.
    Bad("535", "535.104.05", "has a fault in MPS when several clients fail at once"),
)
"""Versions of the driver, which brings MPS."""
DCGM = (
    # https://github.com/NVIDIA/DCGM/issues/65: 3.1.3 is wrong, 3.1.7 is right.
    Bad("3.1.3", "3.1.7", "reads a wrong DRAM activity"),
)


def versions(
    driver: str | None,
    mps: bool,
    which: Callable[[str], str | None] = shutil.which,
    ask: Callable[[Sequence[str], float], str] = ask,
) -> Finding:
    """Whether the versions of driver and DCGM are known to be bad. `mps`: it is switched on."""
    name, dcgm = "versions", _dcgm(which, ask)
    found = [("driver", driver, bad) for bad in (*DRIVER, *(MPS if mps else ()))]
    found += [("DCGM", dcgm, bad) for bad in DCGM]
    known = [
        (f"{what} {version} {bad.effect}", f"{what} {bad.repaired}")
        for what, version, bad in found
        if version is not None and bad.has(version)
    ]
    if known:
        faults, newer = zip(*known, strict=True)
        return warn(name, "; ".join(faults), f"install at least {' and '.join(newer)}")
    looked = [
        f"{what} {version}" for what, version in (("driver", driver), ("DCGM", dcgm)) if version
    ]
    return ok(name, f"nothing bad is known of {' and '.join(looked) or 'what is here'}")


def _dcgm(
    which: Callable[[str], str | None], ask: Callable[[Sequence[str], float], str]
) -> str | None:
    """The version of DCGM; None if it is not there, or does not say."""
    dcgmi = which("dcgmi")
    if dcgmi is None:
        return None
    try:
        printed = ask([dcgmi, "--version"], LIMIT_S)
    except DeviceError:
        return None
    found = re.search(r"version:?\s*(\d{1,3}(?:\.\d{1,4}){1,3})", printed, re.ASCII)
    return found[1] if found else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d{1,9}", version)[:4])
