"""What `radrm doctor` says of Python, packages, clocks and rights."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from radrm.host.health import software
from tests.host.health.judging import judged


@pytest.mark.parametrize(
    ("version", "level"), [((3, 9, 18), "fail"), ((3, 10, 0), "ok"), ((3, 13, 1), "ok")]
)
def test_python(version: tuple[int, ...], level: str) -> None:
    judged(software.python(version), level, ".".join(map(str, version)))


def installed(**versions: str) -> Callable[[str], str]:
    def version_of(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    return version_of


PACKAGES = [
    (["rich>=13.7"], {"rich": "15.0.0"}, "ok", "rich 15.0.0"),
    (["rich>=13.7"], {"rich": "13.10"}, "ok", "rich 13.10"),
    (["rich>=13.7"], {"rich": "13.6.9"}, "warn", "needs 13.7 or newer"),
    (["rich>=13.7", "typer"], {"rich": "14"}, "fail", "pip install typer"),
    (["pytest>=8; extra == 'dev'"], {}, "ok", ""),
    (["tomli>=2.0; python_version < '3.11'"], {}, "ok", ""),
    (["tomli>=2.0; python_version < '3.12'"], {}, "fail", "tomli"),
]


@pytest.mark.parametrize(("requirements", "there", "level", "words"), PACKAGES)
def test_packages(requirements: list[str], there: dict[str, str], level: str, words: str) -> None:
    judged(software.packages(requirements, (3, 11, 0), installed(**there)), level, words)


def test_packages_of_radrm_that_is_not_installed() -> None:
    judged(software.packages(None, (3, 11, 0)), "warn", "not installed")


def test_the_packages_that_radrm_names_are_understood() -> None:
    needed = [r for r in metadata.requires("radrm") or [] if "extra" not in r]
    judged(software.packages(needed, (3, 11, 0)), "ok", "typer", "rich", "psutil")


def test_sqlite() -> None:
    judged(software.sqlite((3, 7, 17)), "fail", "3.7.17")
    judged(software.sqlite((3, 8, 3)), "ok")
    judged(software.sqlite(sqlite3.sqlite_version_info), "ok")


NOW = 1_900_000_000.0


@pytest.mark.parametrize(
    ("wall", "boot", "awake", "newest", "level", "words"),
    [
        (NOW, 7200, 3600, None, "ok", "up for 2.0 h"),
        (NOW, 7200, 7200, NOW - 1, "ok", ""),
        (NOW, 7200, 7200, NOW + 59, "ok", ""),
        (NOW, 7200, 7200, NOW + 3600, "warn", "3600 s behind"),
        (86_400, 100, 100, None, "fail", "before 2024"),
        (NOW, 3600, 7200, None, "warn", "time namespace"),
    ],
)
def test_clock(
    wall: float, boot: float, awake: float, newest: float | None, level: str, words: str
) -> None:
    judged(software.clock(wall, boot, awake, newest), level, words)


def test_a_clock_that_jumps() -> None:
    judged(software.clock(NOW, 7200, 7200, None, -3600.0), "warn", "jumped by -3600 s")
    judged(software.clock(NOW, 7200, 7200, None, 0.4), "ok")


@pytest.mark.parametrize(
    ("umask", "system", "uid", "home", "level", "words"),
    [
        ("0022", True, 0, None, "ok", "all users"),
        ("0022", False, 0, "/r", "ok", "RADRM_HOME=/r"),
        ("0077", False, 1000, None, "ok", "only this user"),
        ("0002", False, 1000, None, "ok", ""),
        ("0000", True, 0, None, "warn", "umask 022"),
    ],
)
def test_rights(
    tmp_path: Path, umask: str, system: bool, uid: int, home: str | None, level: str, words: str
) -> None:
    status = tmp_path / "self" / "status"
    status.parent.mkdir()
    status.write_text(f"Name:\tradrm\nUmask:\t{umask}\nState:\tR\n")
    judged(software.rights(system, uid, home, tmp_path), level, words)
