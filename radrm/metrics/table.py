"""Every metric: its name, its kind, its labels and what it says. docs/prometheus.md has them all.

No label names a job or a user: each value of a label would be a time series for ever.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"
GPU = ("gpu", "uuid", "name")
"""The labels of a device: its index, its UUID and its model."""
DASHBOARD = Path(__file__).with_name("grafana.json")
ALERTS = Path(__file__).with_name("alerts.yml")


class Metric(Struct, frozen=True):
    """One metric. `kind`: GAUGE, COUNTER (from the daemon's start on) or HISTOGRAM (the same)."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


METRICS = (
    Metric("radrm_up", GAUGE, "1 if the daemon answers, else 0 and nothing else is shown."),
    Metric("radrm_build_info", GAUGE, "Always 1; the version of the daemon.", ("version",)),
    Metric("radrm_start_time_seconds", GAUGE, "When the daemon started, since the epoch."),
    Metric("radrm_store_writable", GAUGE, "0 while no decision can be saved: nothing starts."),
    Metric("radrm_rules_resting", GAUGE, "Rules that failed and are replaced for now."),
    Metric("radrm_gpu_memory_total_bytes", GAUGE, "The memory of the GPU.", GPU),
    Metric("radrm_gpu_memory_used_bytes", GAUGE, "Memory in use, by all processes.", GPU),
    Metric("radrm_gpu_memory_reserved_bytes", GAUGE, "Memory reserved for jobs.", GPU),
    Metric("radrm_gpu_memory_unmanaged_bytes", GAUGE, "Memory of unmanaged processes.", GPU),
    Metric("radrm_gpu_memory_free_bytes", GAUGE, "Memory that new jobs can reserve.", GPU),
    Metric("radrm_gpu_sm_active_ratio", GAUGE, "SM activity, 0 to 1; absent if unknown.", GPU),
    Metric("radrm_gpu_power_watts", GAUGE, "Power draw.", GPU),
    Metric("radrm_gpu_energy_joules_total", COUNTER, "Energy that was metered.", GPU),
    Metric("radrm_gpu_jobs", GAUGE, "Jobs with an attempt on the GPU.", GPU),
    Metric(
        "radrm_gpu_state", GAUGE, "1 for the state of the GPU, 0 for the others.", (*GPU, "state")
    ),
    Metric("radrm_jobs", GAUGE, "Jobs that have not ended, by state.", ("state",)),
    Metric("radrm_queue_jobs", GAUGE, "Waiting jobs that could start if there were room."),
    Metric("radrm_queue_wait_seconds", HISTOGRAM, "From submission to the first start of a job."),
    Metric("radrm_jobs_submitted_total", COUNTER, "Jobs that were submitted."),
    Metric("radrm_jobs_rejected_total", COUNTER, "Submitted jobs that can never run here."),
    Metric("radrm_jobs_ended_total", COUNTER, "Ends of jobs, by state.", ("state",)),
    Metric("radrm_attempts_total", COUNTER, "Ends of attempts, by outcome.", ("outcome",)),
    Metric("radrm_oom_total", COUNTER, "Attempts that died of GPU out-of-memory."),
    Metric("radrm_decision_seconds", HISTOGRAM, "Time to decide on events and to save that."),
    Metric("radrm_notices_failed_total", COUNTER, "Notices that could not be sent."),
)
