"""What `radrm doctor` makes of what the daemon tells."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.host.health import served
from tests.host.health.judging import gpu, judged


def row(state: str, *gpus: int, **changed: Any) -> dict[str, Any]:
    return {"gpus": list(gpus), "state": state, "wanted": True, "fault": None, **changed}


def test_gpus_in_order() -> None:
    judged(served.health([gpu(), gpu(1, state="busy")]), "ok", "all 2 are read and in order")
    judged(served.health([gpu()]), "ok", "it is read")
    judged(served.health([]), "fail", "no GPU")


@pytest.mark.parametrize(
    ("changed", "level", "words"),
    [
        ({"state": "unhealthy", "reason": "Xid 79"}, "fail", "GPU 1: Xid 79"),
        ({"state": "unreadable", "reason": None}, "fail", "GPU 1: unreadable"),
        ({"state": "vanished"}, "fail", "no longer there: GPU 1"),
        ({"notes": ["hot (91 C)"]}, "warn", "GPU 1: hot (91 C)"),
        ({"state": "drained", "reason": "fan"}, "warn", "GPU 1: fan"),
    ],
)
def test_a_gpu_that_is_not(changed: dict[str, Any], level: str, words: str) -> None:
    judged(served.health([gpu(), gpu(1, **changed)]), level, words)


def test_only_what_a_person_must_acknowledge_is_to_be_resumed() -> None:
    lost, gone = gpu(1, state="unreadable", reason="lost"), gpu(2, state="vanished")
    assert "resume" not in str(served.health([lost, gone]))
    found = served.health([gpu(0, state="unhealthy", reason="Xid 79"), lost, gone], root=True)
    judged(found, "fail", "GPU 0: Xid 79; GPU 1: lost; no longer there: GPU 2", "radrm resume 0")
    assert "resume 0 " not in str(found)


def test_the_worst_comes_first_and_many_are_counted() -> None:
    noted = gpu(0, notes=["hot"])
    lost = [gpu(n, state="unhealthy", reason=f"Xid {n}") for n in range(1, 8)]
    found = served.health([noted, *lost])
    judged(found, "fail", "GPU 1: Xid 1", "and 3 more")
    assert "hot" not in found.finding
    halves = [gpu(2, kind="mig", profile=p, notes=["hot"]) for p in ("1g.5gb", "1g.5gb")]
    judged(served.health(halves), "warn", "GPU 2 1g.5gb: hot")
    assert served.health(halves).finding.count("hot") == 1


def test_one_cause_is_one_finding_for_all_gpus() -> None:
    every = range(8)
    lost = [gpu(n, state="unhealthy", reason="lost") for n in every]
    judged(served.health(lost), "fail", "GPU 0-7: lost;")
    hot = [gpu(n, notes=["hot"]) for n in (0, 1, 2, 5)]
    judged(served.health(hot), "warn", "GPU 0-2, 5: hot;")
    judged(served.health([gpu(n, state="vanished") for n in every]), "fail", "GPU 0-7;")
    drained = [gpu(n, state="drained", reason="fan") for n in every]
    judged(served.health(drained), "warn", "GPU 0-7: fan;")
    silent = [gpu(n, smact_error="dcgmi has ended") for n in every]
    judged(served.sm_activity(silent), "warn", "GPU 0-7: dcgmi has ended;")
    judged(served.mps([row("silent", n) for n in every]), "fail", "GPU 0-7: silent;")
    judged(served.mps([row("up", n) for n in every]), "ok", "GPU 0-7: up;")


# ------------------------------------------------------------------ SM activity


def test_sm_activity() -> None:
    judged(served.sm_activity([gpu(), gpu(1)]), "ok", "read by dcgm")
    mixed = [gpu(), gpu(1, smact_source="gpm"), gpu(2)]
    judged(served.sm_activity(mixed), "ok", "by dcgm: GPU 0, 2; by gpm: GPU 1")
    silent = gpu(1, smact_error="dcgmi has ended", smact_source=None)
    judged(served.sm_activity([gpu(), silent]), "warn", "GPU 1: dcgmi has ended")
    coarse = gpu(1, smact_source="nvml-utilization", smact_coarse=True)
    judged(served.sm_activity([gpu(), coarse]), "warn", "of GPU 1", "datacenter-gpu-manager")
    coarse = gpu(1, name="NVIDIA RTX A6000", smact_source="nvml-utilization", smact_coarse=True)
    judged(served.sm_activity([coarse]), "ok", "offer no more")
    none = gpu(1, smact_source=None)
    judged(served.sm_activity([gpu(), none]), "warn", "not read of GPU 1")
    instance = gpu(2, kind="mig", smact_source=None)
    judged(served.sm_activity([gpu(), instance]), "ok", "read by dcgm")
    judged(served.sm_activity([instance]), "ok", "not needed")
    dead = gpu(1, state="unreadable", smact_source=None)
    judged(served.sm_activity([gpu(), dead]), "ok", "read by dcgm")


# ------------------------------------------------------------------ MPS


def test_mps() -> None:
    judged(served.mps([]), "ok", "none is wanted")
    judged(served.mps([row("off", 0, wanted=False)]), "ok", "none is wanted")
    judged(served.mps([row("up", 0), row("starting", 1)]), "ok", "GPU 0: up; GPU 1: starting")
    fault = row("fault", 1, fault="a client has faulted")
    judged(served.mps([row("up", 0), fault]), "fail", "GPU 1: a client has faulted", "mps status")
    judged(served.mps([row("silent", 0, 1)]), "fail", "GPU 0, 1: silent")
    judged(served.mps([row("up", 0, fault="odd")]), "warn", "GPU 0: odd")


# ------------------------------------------------------------------ limits, isolation


def test_limits() -> None:
    judged(served.limits(None), "ok", "--cpus")
    why = "CPUs are booked, not enforced: there is no cgroup v2 for this user"
    judged(served.limits(why), "warn", why, "as a service")


def test_isolation_is_a_matter_of_root() -> None:
    judged(served.isolation(None, True, True), "ok", "only the GPUs that it was given")
    judged(
        served.isolation("there is no cgroup v2", True, True), "warn", "no cgroup v2", "security"
    )
    judged(served.isolation("the daemon does not run as root", True, False), "ok", "root")
    judged(served.isolation("gpus.isolate = false", False, True), "ok", "gpus.isolate = false")


# ------------------------------------------------------------------ rules


def test_names_of_gpus_that_are_not_here() -> None:
    assert served.unknown_gpus({"gpus.only": [], "gpus.order": []}) is None
    found = served.unknown_gpus({"gpus.only": ["9"], "gpus.order": ["h200", "7"]})
    assert found is not None
    judged(found, "warn", "no GPU here is named '9' (gpus.only) or 'h200'; '7' (gpus.order)")


def test_rules_that_have_failed_are_said() -> None:
    judged(served.rules([]), "ok", "work")
    judged(served.rules(["the policy x failed (KeyError)"]), "warn", "the policy x failed")


def test_a_server_that_cannot_start_jobs_is_said() -> None:
    judged(served.launches(None), "ok")
    judged(served.launches("too many open files"), "fail", "too many open files", "again")
