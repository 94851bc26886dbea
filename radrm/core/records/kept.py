"""What is kept of devices and rules over a restart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """What people and health rules have said about a device."""

    uuid: str
    drained: str | None = None
    """Why it takes no new job; None when it does."""


@dataclass(frozen=True, slots=True)
class RuleState:
    """A rule's own memory, JSON-serialisable, kept with the version that wrote it."""

    kind: str
    name: str
    version: int
    state: Any = None
    wake_boot_s: float | None = None
    """When it asked to be called again."""
