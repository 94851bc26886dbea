"""Groups of job states, for clients."""

from __future__ import annotations

FINAL = frozenset({"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"})
"""The job has ended."""
LIVE = frozenset({"LAUNCHING", "RUNNING", "STOPPING"})
"""The job has an attempt."""
WAITING = frozenset({"PENDING", "RECOVERING"})
