"""The power limit of GPUs: set, put back, and remembered over a kill."""

from __future__ import annotations

from pathlib import Path

import pynvml
import pytest
from pytest_mock import MockerFixture

from radrm.core.records import Device
from radrm.core.words import DeviceKind
from radrm.errors import BadConfig
from radrm.host.gpus.nvml import NvmlGpus
from radrm.host.gpus.power_limit import LimitedGpus, PowerLimits, limit_errors, nvml_power
from tests.host.gpus.nvml.driver import NO_PERMISSION, Chip, Driver, instance, mig_gpu

SET = "nvmlDeviceSetPowerManagementLimit"


def chip(uuid: str = "GPU-a", now_w: int = 400) -> Chip:
    return Chip(uuid=uuid, power_limit_mw=now_w * 1000, power_range_mw=(100_000, 400_000))


def limits(folder: Path, watts: float = 300) -> PowerLimits:
    return PowerLimits(watts, str(folder / "limits.json"), nvml_power())


def devices(*chips: Chip) -> list[Device]:
    return [Device(str(each.uuid), n, "A100", 40_960) for n, each in enumerate(chips)]


def test_it_is_set_and_put_back(mocker: MockerFixture, tmp_path: Path) -> None:
    one, two = chip(), chip("GPU-b", 250)
    Driver(mocker, one, two)
    mine = limits(tmp_path)
    gpus = LimitedGpus(NvmlGpus(pynvml), mine)
    assert len(gpus.devices()) == 2
    assert (one.power_limit_mw, two.power_limit_mw) == (300_000, 300_000)
    assert mine.of == {"GPU-a": 300.0, "GPU-b": 300.0}
    mine.put_back()
    assert (one.power_limit_mw, two.power_limit_mw) == (400_000, 250_000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("next_w", [300, 350, 0])
def test_after_a_kill_the_next_daemon_knows_the_one_from_before(
    mocker: MockerFixture, tmp_path: Path, next_w: int
) -> None:
    one = chip()
    Driver(mocker, one)
    limits(tmp_path).apply(devices(one))
    after = limits(tmp_path, next_w)
    after.apply(devices(one))
    assert one.power_limit_mw == (next_w or 300) * 1000
    after.put_back()
    assert one.power_limit_mw == 400_000
    assert list(tmp_path.iterdir()) == []


def test_after_a_reboot_the_one_that_is_there_counts(mocker: MockerFixture, tmp_path: Path) -> None:
    one = chip()
    Driver(mocker, one)
    limits(tmp_path).apply(devices(one))
    one.power_limit_mw = 380_000
    after = limits(tmp_path)
    after.apply(devices(one))
    assert one.power_limit_mw == 300_000
    after.put_back()
    assert one.power_limit_mw == 380_000


def test_a_reset_gpu_gets_it_again(mocker: MockerFixture, tmp_path: Path) -> None:
    one = chip()
    Driver(mocker, one)
    mine = limits(tmp_path)
    mine.apply(devices(one))
    one.power_limit_mw = 400_000
    mine.apply(devices(one))
    assert one.power_limit_mw == 300_000


def test_one_that_somebody_else_sets_meanwhile_stays(
    mocker: MockerFixture, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = chip()
    Driver(mocker, one)
    mine = limits(tmp_path)
    mine.apply(devices(one))
    one.power_limit_mw = 200_000
    mine.apply(devices(one))
    mine.apply(devices(one))
    assert one.power_limit_mw == 200_000 and mine.of == {}
    assert "it is 200 W, which somebody has set since" in mine.why_not["GPU-a"]
    assert len([r for r in caplog.records if r.levelname == "WARNING"]) == 1
    mine.put_back()
    assert one.power_limit_mw == 200_000
    assert list(tmp_path.iterdir()) == []


def test_a_driver_that_refuses_is_said_once(
    mocker: MockerFixture, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, old = chip(), Chip(uuid="GPU-b")
    one.fails[SET] = NO_PERMISSION
    Driver(mocker, one, old)
    mine = limits(tmp_path)
    mine.check(devices(one, old))
    mine.apply(devices(one, old))
    mine.apply(devices(one, old))
    assert "run the daemon as root" in mine.why_not["GPU-a"]
    assert "the driver cannot limit this GPU" in mine.why_not["GPU-b"]
    assert len(caplog.records) == 2 and list(tmp_path.iterdir()) == []
    mine.put_back()
    assert one.power_limit_mw == 400_000
    del one.fails[SET]
    mine.apply(devices(one))
    assert mine.of == {"GPU-a": 300.0} and set(mine.why_not) == {"GPU-b"}


@pytest.mark.parametrize("watts", [99.9, 400.1])
def test_outside_the_range_one_line_names_both(
    mocker: MockerFixture, tmp_path: Path, watts: float
) -> None:
    one = chip()
    Driver(mocker, one)
    with pytest.raises(BadConfig) as raised:
        limits(tmp_path, watts).check(devices(one))
    told = f"energy.power_limit_w = {watts:g} is outside the range of GPU 0, 100 to 400 W; write"
    assert told in str(raised.value)
    assert limit_errors(watts) == [str(raised.value)]
    assert limit_errors(400.0) == limit_errors(100.0) == limit_errors(0.0) == []
    limits(tmp_path, 100.0).check(devices(one))


def test_mig_instances_have_that_of_their_gpu(mocker: MockerFixture, tmp_path: Path) -> None:
    parent = mig_gpu(instance("MIG-1", "1g.5gb"), instance("MIG-2", "1g.5gb"))
    parent.power_limit_mw, parent.power_range_mw = 400_000, (100_000, 400_000)
    Driver(mocker, parent)
    mine = limits(tmp_path)
    listed = LimitedGpus(NvmlGpus(pynvml), mine).devices()
    assert {each.kind for each in listed} == {DeviceKind.MIG}
    assert parent.power_limit_mw == 300_000 and mine.of == {"GPU-m": 300.0}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"a": 3}', "3", '{"a": [Infinity, 3]}', '{"a": [1e9, 3]}', "[" * 9999]
)
def test_a_damaged_file_is_said(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "limits.json").write_text(text)
    limits(tmp_path)
    assert "cannot be read" in caplog.text
