"""Memory caps by the driver: which GPUs take them, and a driver that refuses, forgets or hangs.

The control groups are folders. The calls go to the stand-in of libnvidia-ml.so.1.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from radrm.core.records import Device
from radrm.core.words import DeviceKind
from radrm.host.gpus import memory_caps
from radrm.host.gpus.memory_caps import CapsDriver, MemoryCaps, nvml_caps, why_never
from radrm.host.processes import cgroups
from tests.standins.nvml_library import A100, Nvml
from tests.waiting import wait_until

GIB = 1024
NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 3, 4, 6


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the control groups lie."""
    folder = tmp_path / "groups"
    folder.mkdir()
    (folder / "cgroup.subtree_control").touch()
    monkeypatch.setattr(cgroups, "place", lambda name: str(folder / name))
    return folder


def capping(nvml: Nvml) -> str:
    return nvml.gpu(model={**A100, "memory_limits": 1})


def device(uuid: str, kind: DeviceKind = DeviceKind.GPU) -> Device:
    return Device(uuid, 0, "A100", 40 * GIB, kind)


def offered(caps: MemoryCaps, *devices: Device) -> list[bool]:
    return [each.caps for each in caps.listed(devices)]


def answer(ask: Callable[[Callable[[str | None], None]], None]) -> str | None:
    """What a question about caps is answered."""
    said: list[str | None] = []
    done = threading.Event()

    def then(why: str | None) -> None:
        said.append(why)
        done.set()

    ask(then)
    assert done.wait(10)
    return said[0]


# ------------------------------------------------------------------ which GPUs take them


def test_a_gpu_is_tried_on_a_group_that_is_removed(nvml: Nvml, groups: Path) -> None:
    uuid = capping(nvml)
    caps = MemoryCaps(nvml_caps())
    assert offered(caps, device(uuid)) == [True]
    assert [each.name for each in groups.iterdir()] == ["cgroup.subtree_control"]
    assert "misc" in (groups / "cgroup.subtree_control").read_text(), "groups are counted apart"
    tried = len(nvml.calls("nvmlDeviceSetMemoryLimits_v1"))
    assert offered(caps, device(uuid)) == [True]
    assert len(nvml.calls("nvmlDeviceSetMemoryLimits_v1")) == tried, "it is known"


def test_an_old_driver_has_none_and_nothing_is_changed_or_said(
    nvml: Nvml, groups: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uuid = nvml.gpu()
    nvml.fail("nvmlDeviceGetMemoryLimits_v1", 13)  # it has no such function
    caps = MemoryCaps(nvml_caps())
    with caplog.at_level("INFO", "radrm"):
        assert offered(caps, device(uuid)) == [False]
    assert "R615" in caps.why_not[uuid] and caplog.records == []
    assert (groups / "cgroup.subtree_control").read_text() == ""


def test_an_old_package_has_none(nvml: Nvml, groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(pynvml, "c_nvmlGetMemoryLimits_v1_t")
    caps = MemoryCaps(nvml_caps())
    uuid = capping(nvml)
    assert offered(caps, device(uuid)) == [False]
    assert "nvidia-ml-py" in caps.why_not[uuid]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (NOT_SUPPORTED, "RmMemacctMode"),
        (NOT_FOUND, "echo +dmem >"),
        (NO_PERMISSION, "only root"),
        (999, "Unknown Error"),
    ],
)
def test_a_refusal_is_one_line_for_all_gpus(
    nvml: Nvml, groups: Path, caplog: pytest.LogCaptureFixture, error: int, says: str
) -> None:
    uuids = [capping(nvml), capping(nvml)]
    nvml.fail("nvmlDeviceSetMemoryLimits_v1", error)
    caps = MemoryCaps(nvml_caps())
    with caplog.at_level("INFO", "radrm"):
        assert offered(caps, *map(device, uuids)) == [False, False]
    assert len(caplog.records) == 1 and says in caplog.text
    assert not [each for each in groups.iterdir() if each.is_dir()]


def test_mig_instances_are_never_asked(nvml: Nvml, groups: Path) -> None:
    caps = MemoryCaps(nvml_caps())
    instance = device(capping(nvml), DeviceKind.MIG)
    assert offered(caps, instance) == [False]
    assert nvml.calls() == []


def test_a_limit_that_would_hold_for_all_jobs_together_is_not_set(groups: Path) -> None:
    """The driver takes the group of the controller that counts: a group above, if that is the
    nearest with this controller."""
    limits: dict[str, int] = {}
    caps = MemoryCaps(
        CapsDriver(lambda uuid, _: limits.get(uuid), lambda uuid, _, most: limits.update(g=most))
    )
    assert offered(caps, device("g")) == [False]
    assert f"would hold for all in {groups}" in caps.why_not["g"]


def test_a_limit_that_is_forgotten_is_none(groups: Path) -> None:
    caps = MemoryCaps(CapsDriver(lambda *_: None, lambda *_: None))
    assert offered(caps, device("g")) == [False]
    assert "forgets" in caps.why_not["g"]


def test_without_cgroup_v2_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "place", lambda name: None)
    caps = MemoryCaps(CapsDriver(lambda *_: None, lambda *_: None))
    assert offered(caps, device("g")) == [False]
    assert caps.why_not == {"g": "there is no cgroup v2"}


def test_some_daemons_never_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert why_never(True, "nvml") is None
    assert why_never(False, "nvml") == "gpus.memory_caps = false"
    assert why_never(True, "nvidia-smi") == "the GPUs are not read through NVML"
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert why_never(True, "nvml") == "the daemon does not run as root"
    caps = MemoryCaps(CapsDriver(lambda *_: 1 // 0, lambda *_: None), "no")
    assert offered(caps, device("g")) == [False]


# ------------------------------------------------------------------ caps of an attempt


def test_a_cap_is_set_raised_and_not_set_below_what_is_used(nvml: Nvml, groups: Path) -> None:
    uuid, group = capping(nvml), groups / "radrm-1-00"
    group.mkdir()
    (group / "cgroup.procs").write_text("4242\n")
    driver = nvml_caps()
    caps = MemoryCaps(driver)

    def set_to(mib: int) -> str | None:
        return answer(lambda then: caps.set(str(group), ((uuid, mib),), then))

    assert set_to(10 * GIB) is None
    assert driver.get(uuid, str(group)) == 10 * GIB << 20
    nvml.process(uuid, 4242, 9 * GIB)
    assert set_to(20 * GIB) is None
    assert driver.get(uuid, str(group)) == 20 * GIB << 20
    assert set_to(8 * GIB) is not None
    assert driver.get(uuid, str(group)) == 20 * GIB << 20
    assert driver.get(uuid, str(groups)) is None, "others are not limited"


def test_after_a_restart_only_what_lacks_is_set(nvml: Nvml, groups: Path) -> None:
    one, two, group = capping(nvml), capping(nvml), groups / "radrm-1-00"
    group.mkdir()
    driver = nvml_caps()
    driver.put(one, str(group), 20 * GIB << 20)  # it was raised, and the daemon killed
    caps = MemoryCaps(driver)
    wanted = ((one, 10 * GIB), (two, 10 * GIB))
    assert answer(lambda then: caps.restore(str(group), wanted, then)) is None
    found = [driver.get(uuid, str(group)) for uuid in (one, two)]
    assert found == [20 * GIB << 20, 10 * GIB << 20]


def test_an_ended_group_is_an_answer(nvml: Nvml, groups: Path) -> None:
    caps, uuid = MemoryCaps(nvml_caps()), capping(nvml)
    assert answer(lambda then: caps.set(str(groups / "gone"), ((uuid, 1),), then)) is not None


def test_a_driver_that_hangs_keeps_nobody_waiting(
    groups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_caps, "_ANSWER_S", 0.05)
    hangs, goes_on = threading.Event(), threading.Event()

    def put(*_: object) -> None:
        hangs.set()
        assert goes_on.wait(60)

    caps = MemoryCaps(CapsDriver(lambda *_: None, put))
    assert offered(caps, device("g")) == [False]
    assert hangs.wait(10)
    wait_until(lambda: caps._hangs)
    said: list[str | None] = []
    caps.set(str(groups), (("g", 1),), said.append)
    assert said and "has not answered" in str(said[0])
    assert offered(caps, device("h")) == [False]
    goes_on.set()
    wait_until(lambda: not caps._hangs)
    assert answer(lambda then: caps.set(str(groups), (("g", 1),), then)) is None
