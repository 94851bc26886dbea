"""One job of a trace: when it comes, what it needs and does when it is alone on a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A line of a trace (design: `submit_s,name,gpus,duration_s,memory_mib,smact`).

    `duration_s`: alone on the server, start-up included. `memory_mib`: peak per GPU.
    `smact`: mean SM activity (0..1) alone. `estimates`: what estimators say of its memory,
    MiB per GPU, by name; `declared`: they are its submitter's word. `weight` is that of its
    tardiness; `family` and `batch_size` give its share weight (`core.physics.share_weight`).
    `line` is where it stood in its source.

    `after`: the lines of jobs that have to end first, `after_arrays`: the arrays, whole (what
    is not there is no hindrance). `array`: the name of its array, of which `at_once` jobs run
    at a time.
    """

    submit_s: float
    name: str
    gpus: int
    duration_s: float
    memory_mib: float
    smact: float
    estimates: Mapping[str, float] = field(default_factory=dict)
    declared: bool = False
    user: str = "user"
    priority: int = 0
    due_s: float | None = None
    weight: float = 1.0
    batch_size: int | None = None
    family: str | None = None
    steady_mib: float | None = None
    """What it holds once past its peak; None: worked out from the peak."""
    line: int = 0
    after: tuple[int, ...] = ()
    after_arrays: tuple[str, ...] = ()
    array: str | None = None
    at_once: int | None = None
