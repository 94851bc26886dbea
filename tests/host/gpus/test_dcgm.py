"""The feed over a stand-in of `dcgmi`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radrm.core.records import Device
from radrm.core.words import DeviceKind
from radrm.host.gpus import dcgm as module
from radrm.host.gpus.dcgm import Dcgm
from tests.paths import BIN
from tests.waiting import wait_until

A, B = "GPU-aaaaaaaa-0000", "GPU-bbbbbbbb-0000"
IDS = {"MIG-1": (1, 0), "MIG-2": (2, 0)}


class Host:
    """The stand-in's state, and a feed over it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.state: dict[str, Any] = {"gpus": [], "mode": "ok", "interval_s": 0.02}
        self.feed = Dcgm(str(BIN / "dcgmi"))

    def now(self, *gpus: dict[str, Any], mode: str = "ok") -> None:
        if gpus:
            self.state["gpus"] = list(gpus)
        self.state["mode"] = mode
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps(self.state))
        os.replace(fresh, self.file)

    def starts(self) -> list[str]:
        return Path(f"{self.file}.starts").read_text().splitlines()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    place = Host(tmp_path / "dcgmi.json")
    monkeypatch.setenv("STANDIN_DCGMI", str(place.file))
    yield place
    place.feed.close()


def gpu(uuid: str, index: int = 0, model: str = "NVIDIA A100-SXM4-40GB") -> Device:
    return Device(uuid=uuid, index=index, name=model, total_mib=40960)


def instance(uuid: str, profile: str, parent: str = A) -> Device:
    return Device(
        uuid=uuid,
        index=0,
        name=f"NVIDIA A100-SXM4-40GB MIG {profile}",
        total_mib=20000,
        kind=DeviceKind.MIG,
        parent=parent,
        profile=profile,
        instance=IDS.get(uuid),
    )


def test_one_child_serves_all_gpus_of_a_model(host: Host) -> None:
    host.now({"id": 4, "uuid": A, "smact": 0.25}, {"id": 0, "uuid": B, "smact": 0.5})
    devices = [gpu(A), gpu(B, 1), gpu("GPU-other", 2)]
    host.feed.start(devices)
    wait_until(lambda: host.feed.latest(A) and host.feed.latest(B))
    first, second = host.feed.latest(A), host.feed.latest(B)
    assert first and second
    assert (first.smact, second.smact) == (0.25, 0.5)
    assert host.feed.error(A) is None
    assert host.feed.error("GPU-other") == "DCGM does not know this GPU; restart nv-hostengine"
    host.feed.start(devices)  # nothing has changed: nothing is started
    host.now({"id": 4, "uuid": A, "smact": 0.75}, {"id": 0, "uuid": B, "smact": 0.5})
    wait_until(lambda: getattr(host.feed.latest(A), "smact", None) == 0.75)
    assert [s.split()[1] for s in host.starts()] == ["discovery", "dmon"]
    assert " -i 4,0 " in host.starts()[1]


@pytest.mark.parametrize(("interval_s", "every"), [(0.2, "200"), (10.0, "1000")])
def test_a_child_prints_each_second_at_least(host: Host, interval_s: float, every: str) -> None:
    host.feed = Dcgm(str(BIN / "dcgmi"), interval_s=interval_s)
    host.now({"id": 0, "uuid": A, "smact": 0.25})
    host.feed.start([gpu(A)])
    wait_until(lambda: host.feed.latest(A))
    assert host.starts()[-1].endswith(f" -d {every}")


def test_it_is_not_the_same_child_for_another_model(host: Host) -> None:
    host.now({"id": 0, "uuid": A, "smact": 0.25}, {"id": 1, "uuid": B, "smact": 0.5})
    host.feed.start([gpu(A), gpu(B, 1, "NVIDIA T400")])
    wait_until(lambda: host.feed.latest(A) and host.feed.latest(B))
    watched = sorted(s.partition(" -i ")[2].split()[0] for s in host.starts() if " dmon " in s)
    assert watched == ["0", "1"]
    host.feed.start([gpu(A)])
    assert host.feed.latest(B) is None


def test_it_comes_back_by_itself(host: Host) -> None:
    host.now({"id": 0, "uuid": A, "smact": 0.25}, mode="down")
    host.feed.start([gpu(A)])
    assert "unable to establish a connection" in str(wait_until(lambda: host.feed.error(A)))
    host.now()
    wait_until(lambda: host.feed.latest(A))
    assert host.feed.error(A) is None
    host.now(mode="down")
    assert "Host engine connection invalid" in str(wait_until(lambda: host.feed.error(A)))


def test_the_reason_is_the_last_thing_it_has_said(host: Host) -> None:
    host.now({"id": 0, "uuid": A, "smact": 0.25}, mode="unsupported")
    host.feed.start([gpu(A)])
    assert "a module of DCGM that is not" in str(wait_until(lambda: host.feed.error(A)))


@pytest.mark.parametrize("mode", ["mute", "garbage"])
def test_silence_is_trouble(host: Host, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host.now({"id": 0, "uuid": A, "smact": 0.25})
    host.feed.start([gpu(A)])
    wait_until(lambda: host.feed.latest(A))
    monkeypatch.setattr(module, "SILENT_S", 0.2)
    host.now(mode=mode)
    assert "has given no SM activity" in str(wait_until(lambda: host.feed.error(A)))
    host.now()
    wait_until(lambda: host.feed.error(A) is None)


def test_only_na_is_trouble_with_its_reason(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENT_S", 0.2)
    monkeypatch.setattr(module, "START_LIMIT_S", 0.0)
    host.now({"id": 0, "uuid": A, "smact": None})
    host.feed.start([gpu(A)])
    wait_until(lambda: "a profiler may hold" in str(host.feed.error(A)))
    host.now({"id": 0, "uuid": A, "smact": 1.294})
    wait_until(lambda: "1.294" in str(host.feed.error(A)))


def test_dcgm_that_is_not_installed(host: Host) -> None:
    feed = Dcgm("/nowhere/dcgmi")
    feed.start([gpu(A)])
    assert "not installed" in str(wait_until(lambda: feed.error(A)))
    feed.close()
    assert (feed.latest("GPU-other"), feed.error("GPU-other")) == (None, None)


def test_mig_instances_go_by_the_drivers_ids(host: Host) -> None:
    parts = [{"id": 7, "gi": 2, "smact": 0.5}, {"id": 3, "gi": 1, "smact": 0.25}]
    host.now({"id": 0, "uuid": A, "smact": 0.9, "instances": parts})
    host.feed.start([instance("MIG-1", "3g.20gb"), instance("MIG-2", "3g.20gb")])
    wait_until(lambda: host.feed.latest("MIG-1") and host.feed.latest("MIG-2"))
    found = [host.feed.latest(uuid) for uuid in ("MIG-1", "MIG-2")]
    assert [sample and sample.smact for sample in found] == [0.25, 0.5]
    assert " -i i:3,i:7 " in host.starts()[-1]


@pytest.mark.parametrize(
    "devices, parts, words",
    [
        (("3g.20gb", "1g.5gb"), [{"id": 3, "gi": 1}, {"id": 7, "gi": 2}], "differ in size"),
        (("3g.20gb",), [{"id": 3, "gi": 5}], "does not know this MIG instance"),
        (("3g.20gb",), [{"id": 3, "gi": 1, "computes": 2}], "several compute instances"),
    ],
)
def test_instances_that_cannot_be_told_have_no_sm_activity(
    host: Host, devices: tuple[str, ...], parts: list[dict[str, Any]], words: str
) -> None:
    host.now({"id": 0, "uuid": A, "smact": 0.9, "instances": parts})
    host.feed.start([instance(f"MIG-{n}", p) for n, p in enumerate(devices, start=1)])
    assert words in str(wait_until(lambda: host.feed.error("MIG-1")))
    assert host.feed.latest("MIG-1") is None


def test_an_instance_whose_ids_the_driver_does_not_tell(host: Host) -> None:
    host.now({"id": 0, "uuid": A, "instances": [{"id": 3, "gi": 1}]})
    host.feed.start([instance("MIG-9", "3g.20gb")])
    assert "does not report" in str(wait_until(lambda: host.feed.error("MIG-9")))
