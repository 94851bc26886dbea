"""Versions that are known to be bad: each is named once, with the one that repairs it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from radrm.errors import DeviceError
from radrm.host.health.daemon import versions
from tests.host.health.judging import judged


def which(name: str) -> str | None:
    return name


def nothing(name: str) -> str | None:
    return None


def says(version: str) -> object:
    return lambda command, limit_s: f"\ndcgmi  version: {version}\n"


@pytest.mark.parametrize(
    ("driver", "mps", "level", "words"),
    [
        ("535.43.02", False, "warn", "535.43.02 lists wrong processes"),
        ("535.86.10", False, "warn", "at least driver 535.98"),
        ("535.98", False, "ok", "driver 535.98"),
        ("530.41.03", True, "ok", "nothing bad"),
        ("535.98", True, "warn", "several clients fail at once"),
        ("535.104.05", True, "ok", "nothing bad"),
        ("570.124.06", False, "warn", "GPU accounting"),
        ("570.133.20", False, "ok", "nothing bad"),
        ("580.95.05", True, "ok", "nothing bad"),
        ("odd", True, "ok", "nothing bad"),
        (None, True, "ok", "what is here"),
    ],
)
def test_drivers(driver: str | None, mps: bool, level: str, words: str) -> None:
    judged(versions(driver, mps, nothing), level, words)


@pytest.mark.parametrize(
    ("version", "level"),
    [("3.1.3", "warn"), ("3.1.7", "ok"), ("4.6.0", "ok"), ("3.1.2", "ok"), ("?", "ok")],
)
def test_dcgm(version: str, level: str) -> None:
    judged(versions("580.95.05", False, which, says(version)), level, "DCGM 3" * (level == "warn"))  # type: ignore[arg-type]


def test_both_in_one_line() -> None:
    found = versions("535.54.03", True, which, says("3.1.3"))  # type: ignore[arg-type]
    judged(found, "warn", "wrong processes", "MPS", "DRAM", "535.104.05", "DCGM 3.1.7")


def test_a_dcgm_that_does_not_answer() -> None:
    def silent(command: Sequence[str], limit_s: float) -> str:
        raise DeviceError("dcgmi does not answer within 5 s")

    judged(versions("580.95.05", False, which, silent), "ok", "driver 580.95.05")
