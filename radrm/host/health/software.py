"""Python, packages, SQLite, the clock, the rights of this process."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from radrm.host.health.finding import Finding, fail, ok, warn

_PYTHON = (3, 10)
_SQLITE = (3, 8, 3)  # WAL, partial indices
_JUMP_S = 1.0
_YEAR_2024 = 1_704_067_200.0
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[.*?\])?\s*(?:>=\s*([0-9][0-9.]*))?")
_BELOW = re.compile(r"""python_version\s*<\s*["']([0-9.]+)["']""")


def python(version: tuple[int, ...]) -> Finding:
    shown = ".".join(map(str, version[:3]))
    if version[:2] < _PYTHON:
        return fail("Python", f"{shown} is too old", "install Python 3.10 or newer")
    return ok("Python", shown)


def packages(
    requirements: Sequence[str] | None,
    python_version: tuple[int, ...],
    version_of: Callable[[str], str] = metadata.version,
) -> Finding:
    """Whether the packages that radrm needs are installed. `requirements` are those that its
    package states, None if radrm is not installed as a package."""
    if requirements is None:
        next_step = "install it: pip install ."
        return warn("packages", "radrm runs from its source and is not installed", next_step)
    present, missing, old = [], [], []
    for requirement in requirements:
        wanted = _needed(requirement, python_version)
        if wanted is None:
            continue
        name, least = wanted
        try:
            version = version_of(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
            continue
        present.append(f"{name} {version}")
        if _numbers(version) < _numbers(least):
            old.append(f"{name} {version} (needs {least} or newer)")
    if missing:
        install = f"install it: pip install {' '.join(missing)}"
        return fail("packages", f"missing: {', '.join(missing)}", install)
    if old:
        return warn(
            "packages", f"too old: {', '.join(old)}", "upgrade: pip install --upgrade radrm"
        )
    return ok("packages", ", ".join(present))


def _needed(requirement: str, python_version: tuple[int, ...]) -> tuple[str, str] | None:
    """The name and the least version; None for a package that only other Pythons or extras need."""
    words, _, marker = requirement.partition(";")
    below = _BELOW.search(marker)
    if "extra" in marker or (below and python_version >= _numbers(below[1])):
        return None
    found = _REQUIREMENT.match(words.strip())
    return (found[1], found[2] or "0") if found else None


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: (13, 610, 0) of 13.610.0rc1."""
    return tuple(int(n) for n in re.findall(r"\d+", version.split("rc")[0])[:3])


def sqlite(version: tuple[int, ...]) -> Finding:
    shown = ".".join(map(str, version))
    if version < _SQLITE:
        return fail("SQLite", f"{shown} is too old", "use a Python with SQLite 3.8.3 or newer")
    return ok("SQLite", shown)


def clock(
    wall_s: float,
    boot_s: float,
    monotonic_s: float,
    newest_s: float | None,
    jumped_s: float = 0.0,
) -> Finding:
    """Whether the clocks agree.

    `boot_s` counts sleep, `monotonic_s` does not. `newest_s` is the date of the store's last
    change, None without a store. `jumped_s` is by how much the date was set during the checks.
    """
    if wall_s < _YEAR_2024:
        return fail("clock", "the date is before 2024", "set it: timedatectl set-ntp true")
    if newest_s is not None and newest_s > wall_s + 60:
        early = f"it is {newest_s - wall_s:.0f} s behind the last change of the store"
        return warn("clock", early, "check the time service: timedatectl")
    if boot_s < monotonic_s - 1:
        return warn(
            "clock",
            f"time since boot ({boot_s:.0f} s) is less than time awake ({monotonic_s:.0f} s)",
            "job times may be wrong in this container; run radrm outside its time namespace",
        )
    if abs(jumped_s) > _JUMP_S:
        jump = f"the date jumped by {jumped_s:+.0f} s during these checks"
        return warn("clock", jump, "see what sets it: timedatectl, or a virtual machine's host")
    return ok("clock", f"up for {boot_s / 3600:.1f} h")


def rights(system: bool, uid: int, home: str | None, proc: Path = Path("/proc")) -> Finding:
    """Which users this user's daemon would serve, and whether its umask is safe.

    `home` is RADRM_HOME, None if it is not set.
    """
    umask = _umask(proc)
    if umask is not None and not umask & 0o002:
        loose = f"with the umask {umask:03o} everybody may write to new files"
        return warn("rights", loose, "set another before the daemon starts: umask 022")
    if system:
        return ok("rights", "root: the daemon serves all users of this machine")
    if uid == 0:
        alone = f"root with RADRM_HOME={home}: the daemon serves root alone, not all users"
        return ok("rights", alone)
    return ok("rights", f"user {uid}: the daemon serves only this user")


def _umask(proc: Path) -> int | None:
    for line in (proc / "self/status").read_text().splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return None
