"""The daemon's answers as text of Prometheus: the unknown is absent, the hostile only text."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from radrm.core.words import JobState
from radrm.daemon.counting import Counts
from radrm.documents.base import GPU_STATES
from radrm.errors import Refused, Unreachable, UsageError
from radrm.metrics.exposition import exposition, reason_of
from radrm.metrics.table import METRICS
from tests.cli.fakes import ESC, Script, gpu

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Daemon(Script):
    """Answers the two questions."""

    candidates: tuple[()] = ()

    def __init__(self, gpus: Any, counts: Any = None, up: bool = True) -> None:
        super().__init__(gpus=[gpus], metrics=[counted() if counts is None else counts])
        self.up = up

    def is_up(self) -> bool:
        return self.up


def counted(**changed: Any) -> dict[str, Any]:
    """The answer of a daemon that has just started."""
    rest = {
        "version": "0.3.0",
        "jobs": {state.value: 0 for state in JobState if not state.final},
        "queued": 0,
        "writable": True,
        "rules_resting": 0,
        "notices_given_up": 0,
    }
    return {**Counts().document(), **rest, **changed}


def shown(*gpus: dict[str, Any], counts: Any = None) -> Samples:
    text = exposition(Daemon(list(gpus), counts)).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of_gpu(samples: Samples, name: str) -> list[float]:
    return [value for (each, _), value in samples.items() if each == name]


def test_every_metric_of_the_table_is_shown_and_no_other() -> None:
    energy = counted(energy_j={"GPU-a": 5.0})
    text = exposition(Daemon([gpu()], energy)).decode()
    lines = [line.split(" ", 3) for line in text.splitlines() if line.startswith("# ")]
    assert [(name, what) for _, kind, name, what in lines if kind == "HELP"] == [
        (metric.name, metric.help) for metric in METRICS
    ]
    assert [(name, what) for _, kind, name, what in lines if kind == "TYPE"] == [
        (metric.name, metric.kind) for metric in METRICS
    ]


def test_amounts_are_in_base_units() -> None:
    found = shown(gpu(), counts=counted(energy_j={"GPU-a": 5.5, "GPU-gone": 1.0}))
    labels = (("gpu", "0"), ("name", "A100-40GB"), ("uuid", "GPU-a"))
    assert found["radrm_gpu_memory_used_bytes", labels] == 10240 * 2**20
    assert found["radrm_gpu_sm_active_ratio", labels] == 0.5
    assert found["radrm_gpu_energy_joules_total", labels] == 5.5
    assert found["radrm_gpu_jobs", labels] == 2
    states = {dict(each)["state"]: v for (n, each), v in found.items() if n == "radrm_gpu_state"}
    assert states == {state: float(state == "busy") for state in GPU_STATES}
    assert len(of_gpu(found, "radrm_gpu_energy_joules_total")) == 1


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_what_is_unknown_is_absent_and_never_zero(value: float | None) -> None:
    keys = ("used_mib", "free_mib", "unmanaged_mib", "smact", "power_w")
    found = shown(gpu(state="unreadable", **dict.fromkeys(keys, value)), gpu(1))
    for name in ("used_bytes", "free_bytes", "unmanaged_bytes"):
        assert len(of_gpu(found, f"radrm_gpu_memory_{name}")) == 1
    assert of_gpu(found, "radrm_gpu_sm_active_ratio") == [0.5]
    assert of_gpu(found, "radrm_gpu_power_watts") == [200.0]
    assert of_gpu(found, "radrm_gpu_energy_joules_total") == []


def test_the_buckets_of_a_histogram_add_up() -> None:
    waits = {"bounds": [1.0, 60.0], "counts": [2, 3, 4], "sum": 500.0}
    found = shown(counts=counted(wait_s=waits))
    name = "radrm_queue_wait_seconds"
    buckets = {dict(each)["le"]: v for (n, each), v in found.items() if n == f"{name}_bucket"}
    assert buckets == {"1.0": 2, "60.0": 5, "+Inf": 9}
    assert (found[f"{name}_count", ()], found[f"{name}_sum", ()]) == (9, 500)


@pytest.mark.parametrize("name", [f'"}}\n{ESC}', "\\", "\ud800", "x" * 10_000, 'a",gpu="9'])
def test_a_hostile_name_is_only_a_label(name: str) -> None:
    found = shown(gpu(name=name, uuid=name), gpu(1))
    labels = [dict(each) for metric, each in found if metric == "radrm_gpu_jobs"]
    assert [each["gpu"] for each in labels] == ["0", "1"]
    assert all(len(value) <= 100 and value.isprintable() for value in labels[0].values())


def test_many_devices_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radrm.metrics.exposition.MOST_GPUS", 3)
    assert len(of_gpu(shown(*(gpu(i) for i in range(5))), "radrm_gpu_jobs")) == 3


@pytest.mark.parametrize(
    ("gpus", "counts", "why"),
    [
        ([], Unreachable("the daemon went away\nnow"), "the daemon went away"),
        (Refused("busy"), None, "busy"),
        ([], UsageError("this daemon does not know the request 'metrics'"), "does not know"),
        ([], {"version": "9"}, "if radrm was upgraded, restart the daemon"),
        ([{}], None, "if radrm was upgraded, restart the daemon"),
        (None, None, "if radrm was upgraded, restart the daemon"),
    ],
)
def test_without_an_answer_it_is_down_and_says_why(gpus: Any, counts: Any, why: str) -> None:
    text = exposition(Daemon(gpus, counts))
    assert why in (reason_of(text) or "")
    first, *rest = text.decode().splitlines()
    assert first.startswith("# ") and [line for line in rest if line[0] != "#"] == ["radrm_up 0.0"]


def test_without_a_daemon_it_is_down() -> None:
    text = exposition(Daemon([], up=False))
    assert b"radrm_up 0.0\n" in text and b"radrm_build_info" not in text
    assert "no radrm daemon answers" in (reason_of(text) or "")
    assert reason_of(exposition(Daemon([]))) is None
