"""The daemon's answers in the text format of Prometheus.

Theory of operation. Two questions are asked, `metrics` and `gpus`, at one moment each, so the
cost does not depend on the number of past jobs. What the daemon does not know has no sample:
unknown is never 0. Names of devices come from drivers, so they are bounded and made plain; the
library escapes them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from radrm.client.connection import Client
from radrm.client.starting import not_reached
from radrm.client.text import Document
from radrm.documents.base import GPU_STATES
from radrm.errors import RadrmError, Refused, plain
from radrm.metrics.table import COUNTER, GAUGE, HISTOGRAM, METRICS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LIMIT_S = 4.0
"""A client that asks for an exposition should wait so long for an answer, not for minutes."""
MOST_GPUS = 1000
_LONGEST = 100
"""Characters of a label's value."""
_MIB = 2.0**20

Sample: TypeAlias = "tuple[str, tuple[str, ...], float | Document | None]"
"""The name of a metric, the values of its labels, and its value; of a histogram, its document."""


def exposition(client: Client) -> bytes:
    """Return the metrics of a daemon, as text of Prometheus in UTF-8.

    Without an answer, it is `radrm_up 0` after a comment that says why. Raises no `RadrmError`.
    """
    try:
        return rendered(_samples(client))
    except RadrmError as error:
        why = plain(str(error))
    return f"# {why}\n".encode("utf-8", "replace") + rendered([("radrm_up", (), 0.0)])


def reason_of(text: bytes) -> str | None:
    """Return why an exposition has no figures; None if it has."""
    first, _, _ = text.partition(b"\n")
    return None if first.startswith(b"# HELP") else first[2:].decode("utf-8", "replace")


def rendered(samples: Iterable[Sample]) -> bytes:
    """Return samples as text, by metric in the order of `METRICS`. Unknown values are left out."""
    registry = CollectorRegistry()
    registry.register(_Samples(samples))
    return generate_latest(registry)


def _samples(client: Client) -> list[Sample]:
    if not client.is_up():
        raise not_reached(client.candidates, bool(os.environ.get("RADRM_HOME")))
    counts, gpus = client.ask("metrics"), client.ask("gpus")
    try:
        return [*_of_daemon(counts), *_of_gpus(gpus, counts["energy_j"])]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        # A daemon goes on while radrm is upgraded, and answers as its own version does.
        raise Refused(
            f"the daemon's answer is not as radrm expects it ({type(error).__name__}: {error}); "
            "if radrm was upgraded, restart the daemon"
        ) from error


def _of_daemon(counts: Document) -> Iterator[Sample]:
    yield "radrm_up", (), 1.0
    yield "radrm_build_info", _labels(counts["version"]), 1.0
    yield "radrm_start_time_seconds", (), counts["since"]
    yield "radrm_store_writable", (), counts["writable"]
    yield "radrm_rules_resting", (), counts["rules_resting"]
    yield from (("radrm_jobs", (state,), count) for state, count in counts["jobs"].items())
    yield "radrm_queue_jobs", (), counts["queued"]
    yield "radrm_queue_wait_seconds", (), counts["wait_s"]
    yield "radrm_jobs_submitted_total", (), counts["submitted"]
    yield "radrm_jobs_rejected_total", (), counts["rejected"]
    for state, count in counts["ended"].items():
        yield "radrm_jobs_ended_total", (state,), count
    for outcome, count in counts["attempts"].items():
        yield "radrm_attempts_total", (outcome,), count
    yield "radrm_oom_total", (), counts["attempts"]["oom"]
    yield "radrm_decision_seconds", (), counts["decision_s"]
    yield "radrm_notices_failed_total", (), counts["notices_given_up"]


def _of_gpus(gpus: Sequence[Document], energy_j: Document) -> Iterator[Sample]:
    for gpu in gpus[:MOST_GPUS]:
        labels = _labels(gpu["index"], gpu["uuid"], gpu["name"])
        for what in ("total", "used", "reserved", "unmanaged", "free"):
            mib = gpu[f"{what}_mib"]
            yield f"radrm_gpu_memory_{what}_bytes", labels, None if mib is None else mib * _MIB
        yield "radrm_gpu_sm_active_ratio", labels, gpu["smact"]
        yield "radrm_gpu_power_watts", labels, gpu["power_w"]
        yield "radrm_gpu_energy_joules_total", labels, energy_j.get(gpu["uuid"])
        yield "radrm_gpu_jobs", labels, len(gpu["jobs"])
        for state in GPU_STATES:
            yield "radrm_gpu_state", (*labels, state), gpu["state"] == state


class _Samples(Collector):
    """Groups samples by metric."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._of: dict[str, list[Sample]] = {}
        for sample in samples:
            self._of.setdefault(sample[0], []).append(sample)

    def collect(self) -> Iterator[Metric]:
        for metric in METRICS:
            family = _FAMILIES[metric.kind](metric.name, metric.help, labels=metric.labels)
            for _, labels, value in self._of.get(metric.name, ()):
                _add(family, labels, value)
            if family.samples:
                yield family


_FAMILIES: dict[str, type[GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily]] = {
    GAUGE: GaugeMetricFamily,
    COUNTER: CounterMetricFamily,
    HISTOGRAM: HistogramMetricFamily,
}


def _add(
    family: GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily,
    labels: Sequence[str],
    value: float | Document | None,
) -> None:
    if isinstance(family, HistogramMetricFamily):
        assert isinstance(value, dict)
        bounds = [*map(floatToGoString, value["bounds"]), "+Inf"]
        within = accumulate(value["counts"])
        family.add_metric(labels, list(zip(bounds, within, strict=True)), value["sum"])
    elif isinstance(value, (int, float)) and math.isfinite(value):
        family.add_metric(labels, float(value))


def _labels(*values: object) -> tuple[str, ...]:
    """The values of labels as valid, plain, bounded text."""
    short = (plain(str(value)[:_LONGEST]) for value in values)
    return tuple(each.encode("utf-8", "replace").decode() for each in short)
