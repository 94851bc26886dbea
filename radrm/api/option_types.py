"""The options of a submission, for type checkers: made from the option table by `make generated`.

At run time only the table counts (`radrm.jobfile.options`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, TypedDict


class JobOptions(TypedDict, total=False):
    """What `Client.submit`, `Client.edit` and `Executor` take. None leaves an option out."""

    gpus: float | str | None
    """Number of GPUs (default: 1)."""
    gpu_memory: int | str | None
    """Memory to reserve per GPU, and a limit."""
    gpu_type: str | None
    """Types of GPU to accept, such as a6000|a100."""
    prefer_gpus: str | None
    """GPUs to use first: types, indices, UUIDs."""
    avoid_gpus: str | None
    """GPUs to use only if no others will do."""
    mig_profile: str | None
    """MIG profile, such as 1g.5gb."""
    cpus: float | str | None
    """CPUs for the job (with a range: for each worker); also its limit."""
    memory: int | str | None
    """Host memory for the job; also its limit."""
    role: str | Sequence[str] | None
    """Tasks of one kind, with --gpus=0."""
    collocation: Literal["auto", "exclusive", "timeslice", "mps", "mig"] | None
    """How to share a GPU."""
    smact: float | str | None
    """Expected SM activity when alone on a GPU (0.6@a100: on an A100)."""
    sm_share: float | str | None
    """The part of a GPU's SMs as an MPS client."""
    max_slowdown: str | None
    """Longest run time beside others (1.3: 30% longer)."""
    time: str | None
    """Time limit, such as 90min, 4:00:00 or 1-00:00:00."""
    duration: str | None
    """Expected run time when alone on a GPU."""
    priority: float | str | None
    """Higher starts earlier (-1000 to 1000)."""
    hold: bool | None
    """Do not start the job before `radrm release`."""
    after: int | str | Sequence[int | str] | None
    """Start after that job; `none` drops earlier ones."""
    begin: str | datetime | None
    """Do not start before, such as 18:00, +2h or none."""
    due: str | datetime | None
    """Due time, such as 18:00, 'fri 9:00', +90m or none."""
    weight: float | str | None
    """Multiplies the cost of a late end (default: 1)."""
    array: str | None
    """A job per number (or 1,3,5; 0-9:2), N at once."""
    param: str | Sequence[str] | Mapping[str, object] | None
    """A job per value (lr=1,2 or seed=0:9), for {NAME}."""
    params: str | os.PathLike[str] | None
    """A job per row of values; the first line has the names."""
    at_once: float | str | None
    """Elements of a sweep at once (of an array: 0-9%N)."""
    max_fails: float | str | None
    """Hold the rest of an array after N failures (@60s: within 60 s)."""
    name: str | None
    """Its name (default: that of its file)."""
    comment: str | None
    """A note kept with the job."""
    chdir: str | os.PathLike[str] | None
    """Run here instead of the submit directory."""
    env: str | Sequence[str] | Mapping[str, object] | None
    """Set a variable for the job."""
    output: str | os.PathLike[str] | None
    """File of its output: %j %x %u %A %a %t."""
    error: str | os.PathLike[str] | None
    """File of standard error alone; the same patterns."""
    snapshot: str | os.PathLike[str] | bool | None
    """Run in a copy of DIR (default: the submit directory)."""
    device_ids: Literal["uuid", "index"] | None
    """How CUDA_VISIBLE_DEVICES names the job's GPUs."""
    cpu_bind: Literal["socket", "numa", "none"] | None
    """Run on the CPUs of the GPUs' sockets or NUMA nodes (none: on all)."""
    background: Literal["end", "wait"] | None
    """What becomes of processes that its script leaves running."""
    notify: str | Sequence[str] | None
    """Mail address, URL or program to tell of its end."""
    retries: float | str | None
    """Run again up to N times after a failure."""
    retry_on: str | None
    """Retry only after these exit codes or signals, as in 1,75-80,KILL."""
    requeue: bool | None
    """Run again after a lost attempt."""
    signal: str | None
    """Send it SECONDS before the time limit."""
    silent_limit: str | None
    """Stop the job if its log and progress do not change for so long."""
    expect_idle: bool | None
    """The job may leave its GPUs idle ([idle] spares it)."""
    checkpoint: Literal["none", "signal", "exit"] | None
    """How the job saves its work: on a signal; or on TERM, and exits."""
    checkpoint_signal: str | None
    """The signal that asks for it (USR1)."""
    checkpoint_cost: float | str | timedelta | None
    """How long saving takes."""
    progress_pattern: str | None
    """Read progress from the log, as in (?P<step>\\d+)/(?P<total>\\d+)."""
    progress_file: str | os.PathLike[str] | None
    """Read progress from this file instead of the log."""
    model_summary: str | os.PathLike[str] | None
    """File with the model's summary, for estimators."""
    model_factory: str | None
    """Builds the model, for estimators."""
    batch_size: float | str | None
    """For estimators."""
    sequence_length: float | str | None
    """Tokens per sequence."""
    input_shape: str | None
    """One sample, such as 3x224x224."""
    optimizer: str | None
    """For estimators."""
    precision: Literal["fp32", "tf32", "fp16", "bf16", "amp"] | None
    """For estimators."""
    no_trace: bool | None
    """Run nothing of the job before it starts, not even to estimate it."""
