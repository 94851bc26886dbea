"""The records of devices and rules that a restart keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """What users have set for a device."""

    uuid: str
    drained: str | None = None
    """Why it takes no new job; None when it does."""


@dataclass(frozen=True, slots=True)
class RuleState:
    """A rule's own memory, as JSON can hold it, with the rule's version that wrote it."""

    kind: str
    name: str
    version: int
    state: Any = None
    wake_boot_s: float | None = None
    """The boot time at which it asked to be called; None: it did not."""
