"""Sizes and durations as people write and read them."""

from __future__ import annotations

import pytest

from radrm.core.units import parse_mib, parse_seconds, show_mib, show_seconds


@pytest.mark.parametrize(
    "text, mib",
    [
        *[(t, 4096) for t in ("4G", "4GiB", "4g", "4096M", "4096", " 4096 MiB ", "4194304K")],
        ("0.5G", 512),
        ("1T", 1024 * 1024),
        ("1K", 1),
        ("1.5", 2),
    ],
)
def test_sizes(text: str, mib: int) -> None:
    assert parse_mib(text) == mib


@pytest.mark.parametrize(
    "text", ["", "G", "-1G", "0", "4X", "4 G B", "1e3", "4,5G", "٤G" + "x", "9" * 400]
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError):
        parse_mib(text)


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("90", 90),
        ("90s", 90),
        ("1:30", 90),
        ("0:01:30", 90),
        ("1-00:00:00", 86400),
        ("2h 30m", 9000),
        ("1d", 86400),
        ("0.5h", 1800),
        ("90min", 5400),
        ("1.5 Hours", 5400),
        ("2 days", 172_800),
        ("1w1sec", 604_801),
        ("1-12", 129_600),
        ("1-12:30", 131_400),
        ("1-12:30:05.5", 131_405.5),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-5",
        "soon",
        "1:2:3:4",
        "5x",
        "5mins2",
        "1-",
        "1-1:2",
        "1-2-3",
        "1s " * 50_000 + "x",
        "9" * 400,
    ],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError):
        parse_seconds(text)


@pytest.mark.parametrize(
    "shown, text",
    [
        (show_mib(None), "-"),
        (show_mib(512), "512M"),
        (show_mib(5262), "5.1G"),
        (show_seconds(None), "-"),
        (show_seconds(-3), "0s"),
        (show_seconds(59.4), "59s"),
        (show_seconds(192), "3m12s"),
        (show_seconds(7500), "2h05m"),
        (show_seconds(4 * 86400), "4d00h"),
    ],
)
def test_what_people_see(shown: str, text: str) -> None:
    assert shown == text
