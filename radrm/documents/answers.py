"""Which document each command of the server answers with `--json`."""

from __future__ import annotations

from radrm.documents.jobs import Change, Explanation, Job, Result, Submitted, Understood
from radrm.documents.reports import Energy, History, Overview, Report
from radrm.documents.server import (
    Checked,
    Configuration,
    Estimate,
    Finding,
    Gpu,
    GpuResult,
    Limits,
    Mps,
    Summarized,
    UserReservation,
)

ANSWERS = {
    "status": tuple[Job, ...],
    "wait": tuple[Job, ...],
    "explain": Explanation,
    "gpus": tuple[Gpu, ...],
    "limits": Limits,
    "report": Report,
    "report --energy": Energy,
    "report --overview": Overview,
    "history": History,
    "mps status": tuple[Mps, ...],
    "doctor": tuple[Finding, ...],
    "config show": Configuration,
    "config check": Checked,
    "estimate": tuple[Estimate, ...],
    "summarize": Summarized,
    "submit": tuple[Submitted, ...],
    "submit --dry-run": tuple[Understood, ...],
    "cancel": tuple[Result, ...],
    "hold": tuple[Result, ...],
    "release": tuple[Result, ...],
    "requeue": tuple[Result, ...],
    "edit": tuple[Result, ...],
    "checkpoint": tuple[Change, ...],
    "migrate": tuple[Change, ...],
    "resize": tuple[Change, ...],
    "drain": tuple[GpuResult, ...],
    "resume": tuple[GpuResult, ...],
    "reserve": tuple[UserReservation, ...],
    "mps start": tuple[GpuResult, ...],
    "mps stop": tuple[GpuResult, ...],
}
"""The longest name that begins a command line counts: `report --energy` before `report`."""
