"""What `radrm doctor` makes of what the daemon tells."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.host.health import kernel, served
from radrm.host.processes import cgroups
from tests.host.health.judging import gpu, judged


def row(state: str, *gpus: int, **changed: Any) -> dict[str, Any]:
    return {"gpus": list(gpus), "state": state, "wanted": True, "fault": None, **changed}


def unmanaged(pid: int, user: str | None = "bob", **changed: Any) -> dict[str, Any]:
    return {"pid": pid, "used_mib": 1024, "user": user, "command": "python", **changed}


def node(cpus: float | None, booked: float, mib: int | None, booked_mib: int) -> dict[str, Any]:
    words = {"node_cpus": cpus, "node_cpus_booked": booked}
    return {"node": "local", **words, "node_memory_mib": mib, "node_memory_booked_mib": booked_mib}


def test_what_jobs_have_booked_of_the_server() -> None:
    judged(served.nodes([]), "ok", "unknown")
    booked = "3.5 of 4 CPUs and 512M of 8.0G host memory booked"
    judged(served.nodes([node(4.0, 3.5, 8192, 512)]), "ok", booked)
    judged(served.nodes([node(4.0, 4.5, 8192, 512)]), "warn", "4.5 of 4 CPUs", "[node]")
    judged(served.nodes([node(4.0, 1.0, 8192, 8193)]), "warn", "8.0G of 8.0G", "[node]")
    judged(served.nodes([node(None, 1.0, None, 1)]), "ok", "1 of - CPUs")


def test_why_the_driver_caps_no_memory_is_one_line() -> None:
    gpus = [gpu(index, uuid=f"GPU-{index}") for index in range(3)]
    instance = gpu(uuid="MIG-1", kind="mig", profile="1g.5gb")
    old, hangs = "the driver is too old", "the driver hangs"
    for wanted, why_not in (
        ("caps the memory of jobs that share a GPU without MPS", {}),
        (f"caps no GPU memory: {old}", {f"GPU-{n}": old for n in range(3)}),
        (f"some GPUs only; GPU 0, 2: {old}", {"GPU-0": old, "GPU-2": old}),
        (
            f"some GPUs only; GPU 0: {old}; GPU 1, 2: {hangs}",
            {"GPU-0": old, "GPU-1": hangs, "GPU-2": hangs},
        ),
    ):
        finding = served.memory_caps([*gpus, instance], why_not)
        assert finding is not None
        judged(finding, "ok", wanted)
    assert served.memory_caps([instance], {}) is None


# ------------------------------------------------------------------ health


def test_gpus_in_order() -> None:
    judged(served.health([gpu(), gpu(1, state="busy")]), "ok", "all 2 are read and in order")
    judged(served.health([gpu()]), "ok", "it is read")
    judged(served.health([]), "fail", "no GPU")


@pytest.mark.parametrize(
    ("changed", "level", "words"),
    [
        ({"state": "unhealthy", "reason": "Xid 79"}, "fail", "GPU 1: Xid 79"),
        ({"state": "unreadable", "reason": None}, "fail", "GPU 1: unreadable"),
        ({"state": "vanished"}, "warn", "no longer there: GPU 1"),
        ({"notes": ["hot (91 C)"]}, "warn", "GPU 1: hot (91 C)"),
        ({"state": "drained", "reason": "fan"}, "warn", "GPU 1: fan"),
    ],
)
def test_a_gpu_that_is_not(changed: dict[str, Any], level: str, words: str) -> None:
    judged(served.health([gpu(), gpu(1, **changed)]), level, words)


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
    judged(served.health([gpu(n, state="vanished") for n in every]), "warn", "GPU 0-7;")
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


# ------------------------------------------------------------------ unmanaged processes


def test_unmanaged() -> None:
    two = [gpu(), gpu(3, unmanaged=[unmanaged(1), unmanaged(2, None), unmanaged(1)])]
    judged(served.unmanaged([gpu()], "warn", True), "ok", "no unmanaged process")
    judged(served.unmanaged(two, "count", False), "ok", "2 processes of bob on GPU 3", "counted")
    judged(served.unmanaged(two, "drain", False), "warn", "take no new job", "radrm gpus")
    judged(served.unmanaged([gpu()], "signal", False), "warn", "not root")


def test_those_that_are_spared_are_not_spoken_of() -> None:
    xorg, bob = unmanaged(1, "root"), unmanaged(2, step="warned")
    judged(served.unmanaged([gpu(unmanaged=[xorg])], "signal", True), "ok", "no unmanaged process")
    found = served.unmanaged([gpu(unmanaged=[xorg, bob])], "warn", True)
    judged(found, "warn", "1 process of bob on GPU 0, with 1.0G")


# ------------------------------------------------------------------ the clock


@pytest.mark.parametrize("moved_s", [None, 0.0, 1.5, -1.5])
def test_a_clock_that_was_left_alone(moved_s: float | None) -> None:
    assert served.clock_moved(moved_s) is None


@pytest.mark.parametrize(("moved_s", "said"), [(3600.0, "1h00m forward"), (-90.0, "1m30s back")])
def test_a_clock_that_was_set(moved_s: float, said: str) -> None:
    found = served.clock_moved(moved_s)
    assert found is not None
    judged(found, "warn", said)


# ------------------------------------------------------------------ the daemon's process


def machine(folder: Any, group: str, limits: str = "") -> tuple[Any, Any]:
    proc, mount = folder / "proc", folder / "cgroup"
    (proc / "77").mkdir(parents=True)
    (proc / "self").mkdir()
    mounted = f"30 23 0:27 / {mount} rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
    (proc / "self" / "mountinfo").write_text(f"22 1 8:1 / / rw - ext4 /dev/sda rw\n{mounted}")
    mount.mkdir()
    (proc / "77" / "cgroup").write_text(group)
    (proc / "77" / "limits").write_text(limits)
    return proc, mount


def test_the_groups_of_a_daemon(tmp_path: Any) -> None:
    proc, mount = machine(tmp_path, "1:name=x:/y\n0::/system.slice/radrmd.service\n")
    look = lambda uid: kernel.served_group(77, uid, proc)  # noqa: E731
    judged(look(0), "ok", "cannot be looked into")
    group = mount / "system.slice" / "radrmd.service"
    group.mkdir(parents=True)
    (group / "cgroup.type").write_text("domain")
    judged(look(0), "warn", "5.14")
    (group / "cgroup.kill").write_text("")
    judged(look(0), "ok", "the daemon makes groups in /system.slice/radrmd.service")
    inner = f"0::/system.slice/radrmd.service/{cgroups.OWN}\n"
    (proc / "77" / "cgroup").write_text(inner)
    judged(look(0), "ok", "the daemon makes groups in /system.slice/radrmd.service")
    judged(look(group.stat().st_uid + 1), "warn", "Delegate=yes")
    judged(look(None), "warn", "Delegate=yes")
    for other, level in (("0::/../other\n", "ok"), ("4:memory:/radrm\n", "warn"), ("", "warn")):
        (proc / "77" / "cgroup").write_text(other)
        assert look(0).level.value == level


def test_the_files_of_a_daemon(tmp_path: Any) -> None:
    line = "Max open files            1024                 unlimited            files     \n"
    proc, _ = machine(tmp_path, "", "Limit  Soft  Hard\n" + line)
    assert kernel.file_limits(77, proc) == (1024, -1)
    (proc / "77" / "limits").write_text("")
    with pytest.raises(ValueError):
        kernel.file_limits(77, proc)


# ------------------------------------------------------------------ rules


def test_names_of_gpus_that_are_not_here() -> None:
    assert served.gpu_order([]) is None
    found = served.gpu_order(["h200", "7"])
    assert found is not None
    judged(found, "warn", "no GPU here is named 'h200'; '7' (gpus.order)")


def test_rules_that_have_failed_are_said() -> None:
    judged(served.rules([]), "ok", "work")
    judged(served.rules(["the policy x failed (KeyError)"]), "warn", "the policy x failed")
