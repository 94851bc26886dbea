"""Compute modes are set for MPS clients, and restored."""

from __future__ import annotations

from pathlib import Path

import pytest

from radrm.host.mps.compute_mode import EXCLUSIVE_PROCESS
from tests.host.mps.controls import ONE, TWO, Driver, modes_in


def test_modes_are_set_for_clients_and_given_back_before_others(tmp_path: Path) -> None:
    driver = Driver()
    modes = modes_in(tmp_path, driver)
    modes.exclusive([ONE, TWO])
    modes.exclusive([ONE])
    assert set(driver.modes.values()) == {EXCLUSIVE_PROCESS}
    modes.restore([TWO])
    assert driver.modes == {ONE: EXCLUSIVE_PROCESS, TWO: 1}
    modes.restore()
    assert driver.modes == {ONE: 0, TWO: 1}
    assert list(tmp_path.iterdir()) == []


def test_modes_are_given_back_by_the_next_daemon_after_a_kill(tmp_path: Path) -> None:
    driver = Driver()
    modes_in(tmp_path, driver).exclusive([ONE])
    modes_in(tmp_path, driver).restore()
    assert driver.modes == {ONE: 0, TWO: 1}


def test_a_mode_that_cannot_be_set_is_said_once_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    driver = Driver()
    driver.broken = True
    modes = modes_in(tmp_path, driver)
    modes.exclusive([ONE])
    modes.exclusive([ONE])
    assert len(caplog.records) == 1 and "nvidia-smi -c" in caplog.text
    modes.restore()
    assert driver.modes[ONE] == 0


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"a": "b"}', "3", '{"a": Infinity}', '{"a": 4}', "[" * 9999]
)
def test_a_damaged_memory_of_modes_is_said(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "modes.json").write_text(text)
    modes_in(tmp_path, Driver()).restore()
    assert "cannot be read" in caplog.text
