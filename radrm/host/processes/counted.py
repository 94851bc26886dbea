"""What the control groups of one attempt have counted: CPU time, memory, block I/O.

Sources of the formats: the kernel's admin-guide/cgroup-v2.rst (`cpu.stat`, `memory.current`,
`io.stat`) and cgroup-v1/cpuacct.rst, cgroup-v1/memory.rst. Version 2 counts no network traffic.
"""

from __future__ import annotations

import os

from msgspec import Struct

from radrm.host.processes import cgroups
from radrm.host.processes.limits import Limits

_MIB = 1 << 20
_MOST = 1 << 16
"""Bytes of one file that are read."""
_MOST_DIGITS = 20


class Counted(Struct, frozen=True):
    """CPU seconds, MiB of memory and bytes of block I/O; None: no group tells it."""

    cpu_s: float | None = None
    memory_mib: int | None = None
    block_bytes: int | None = None


def counted(tree: str | None, limits: Limits) -> Counted:
    """Read what an attempt has used so far. `tree`: its group of cgroup v2, if it has one."""
    return Counted(_cpu_s(tree, limits), _memory_mib(tree, limits), _block_bytes(tree))


def _cpu_s(tree: str | None, limits: Limits) -> float | None:
    # The group of a real controller first: a tree of version 2 may lie beside version 1.
    if limits.account is not None:
        ns = _number(limits.account, "cpuacct.usage")
        return None if ns is None else ns / 1e9
    usage_us = cgroups.counts(tree, "cpu.stat").get("usage_usec") if tree is not None else None
    return None if usage_us is None else usage_us / 1e6


def _memory_mib(tree: str | None, limits: Limits) -> int | None:
    found = _number(limits.memory, "memory.usage_in_bytes") if limits.memory is not None else None
    if found is None and tree is not None:
        found = _number(tree, "memory.current")
    return None if found is None else found // _MIB


def _block_bytes(tree: str | None) -> int | None:
    """Bytes read and written, of lines such as `8:0 rbytes=90 wbytes=7 rios=1 wios=1`."""
    text = _text(tree, "io.stat") if tree is not None else None
    if text is None:
        return None
    pairs = (word.partition("=") for word in text.split())
    return sum(_whole(n) or 0 for key, _, n in pairs if key in ("rbytes", "wbytes"))


def _number(group: str, name: str) -> int | None:
    return _whole((_text(group, name) or "").strip())


def _whole(text: str) -> int | None:
    """Return a number of at most 64 bits, as the kernel writes it."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _text(group: str, name: str) -> str | None:
    try:
        with open(os.path.join(group, name), encoding="ascii", errors="replace") as file:
            return file.read(_MOST)
    except OSError:
        return None
