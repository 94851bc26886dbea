"""What a job's card says of its memory cap: how much, for what, and who enforces it."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.cli.show.card import card
from tests.cli.fakes import NOW, job
from tests.cli.fakes import shown as lines_of


def shown(attempt: dict[str, Any], **changed: Any) -> str:
    running = job(5, "RUNNING", **{"reserved_mib": 5120, "peak_mib": 4096, **changed})
    return "\n".join(lines_of(card(running, NOW, {}, [attempt]), 100))


def test_cpus_and_host_memory_and_why_they_are_no_limit() -> None:
    said = shown(ATTEMPT, cpus=2.5, memory_mib=4096)
    assert "2.5 CPUs, 4.0G of host memory" in said and "limits" not in said
    why = "CPUs are booked, not enforced: there is no cgroup v2 for this user"
    assert why in " ".join(shown(ATTEMPT, cpus=1.0, not_enforced=why).split())
    assert "1 CPU, " not in shown(ATTEMPT) and "1 CPU" in shown(ATTEMPT, cpus=1.0)


def test_the_cpu_share_of_a_running_job() -> None:
    said = shown(ATTEMPT, cpu_share={"cpus": None, "weight": 0.5, "part": 0.25})
    assert "25% of the server" in said and "at most" not in said
    steered = shown(
        ATTEMPT,
        cpu_share={"cpus": None, "weight": 0.5, "part": 0.25},
        remarks=["flowcon: completing"],
    )
    assert "25% of the server while others want it (flowcon: completing)" in steered
    assert "at most 2 CPUs" in shown(ATTEMPT, cpu_share={"cpus": 2.0, "weight": None, "part": 0.5})
    assert "of the server" not in shown(ATTEMPT, cpu_share=None)
    assert "specon: converged" in shown(ATTEMPT, cpu_share=None, remarks=["specon: converged"])


ATTEMPT = {"number": 1, "reserved_mib": 20480, "ended_at": None, "smact": None}


def test_a_cap_and_who_enforces_it_are_shown() -> None:
    said = shown(ATTEMPT, cap_mib=20480, cap_by="mps")
    assert "reserved 5.0G per GPU, peak use 4.0G" in said
    assert "20.0G per GPU, more than is reserved now (MPS, for each process)" in said
    said = shown(ATTEMPT, cap_mib=5120, cap_by="driver")
    assert "5.0G per GPU (the driver, for its processes together, not in containers)" in said


def test_a_limit_that_nobody_enforces_does_not_pretend() -> None:
    said = shown(ATTEMPT, gpu_memory_max_mib=30720, cap_mib=None, cap_by=None)
    assert "none is enforced" in said and "per GPU (" not in said


@pytest.mark.parametrize("changed", [{}, {"cap_mib": None, "cap_by": None}])
def test_without_one_nothing_is_said(changed: dict[str, Any]) -> None:
    assert "memory cap" not in shown(ATTEMPT, **changed)


def test_a_waiting_job_shows_its_limit_and_no_cap() -> None:
    its = {"estimate_mib": 20480, "estimate_source": "declared", "gpu_memory_max_mib": 40960}
    said = "\n".join(lines_of(card(job(5, "PENDING", **its), NOW, {}, []), 100))
    assert "20.0G per GPU, limit 40.0G (declared)" in said and "memory cap" not in said


def test_an_sm_share_and_why_it_is_no_limit() -> None:
    said = shown(ATTEMPT, sm_share=0.3, sm_share_unbound=None)
    assert "30% of the SMs" in said and "SM share    30%, booked; its MPS limit" in said
    said = shown(ATTEMPT, sm_share=0.3, sm_share_unbound="it is time-sliced and no MPS client")
    assert "30%, does not limit it, because it is time-sliced and no MPS client" in said
    assert "SM share" not in shown(ATTEMPT)
