"""What this Python lacks, from a folder of wheels: no package index is asked.

    python -m proofs.acceptance.packages --list        what a folder of wheels needs
    python -m proofs.acceptance.packages -m pytest ... run Python so, with what it lacked

Only the standard library is imported here.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

NEEDED = {
    "typer": "typer<0.29",
    "rich": "rich",
    "pynvml": "nvidia-ml-py",
    "psutil": "psutil",
    "filelock": "filelock",
    "inotify_simple": "inotify_simple",
    "msgspec": "msgspec",
    "pytest": "pytest",
    "pytest_mock": "pytest-mock",
    "hypothesis": "hypothesis",
    "jsonschema": "jsonschema",
}
"""What radrm and its tests import, and the package that has it. pytest-mock and jsonschema may be
missing: the tests of tests/gpu use the one not at all, the other where it is there."""
OPTIONAL = ("pytest_mock", "jsonschema")
WHEELS = Path(__file__).parents[2] / "wheels"
_LIMIT_S = 120.0


class Lacking(Exception):
    """A package is missing, and the folder of wheels does not have it."""


def missing() -> list[str]:
    """The modules that this Python cannot import."""
    importlib.invalidate_caches()
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def site_folder() -> Path:
    """Where missing packages are unpacked: beside other temporary files, for each Python its own.

    Another user's processes read it, too (step `nvml-nobody`).
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Path(tempfile.gettempdir()) / f"radrm-wheels-{os.getuid()}-{version}"


def provide(wheels: Path, site: Path) -> str | None:
    """Unpack what is missing into `site`; the folder for PYTHONPATH, None if nothing is missing.

    Raises `Lacking`. Anybody may make a folder among temporary files, and whoever owns this one
    would have root run his code. So it is made before it is checked, and used only after that.
    """
    absent = missing()
    with contextlib.suppress(OSError):
        if absent:
            site.mkdir(0o755)
    if not os.path.lexists(site):
        return None
    found = site.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise Lacking(f"{site} is another user's to change; remove it, or set TMPDIR")
    if absent:
        _unpack(absent, wheels, site)
    sys.path.insert(0, str(site))
    still = [name for name in missing() if name not in OPTIONAL]
    if still:
        raise Lacking(_advice(still, wheels))
    return str(site)


def _unpack(absent: list[str], wheels: Path, site: Path) -> None:
    needed = [name for name in absent if name not in OPTIONAL]
    if not wheels.is_dir():
        if needed:
            raise Lacking(_advice(needed, wheels))
        return
    for name in absent:
        # One by one: without a wheel of an optional package the others are unpacked all the same.
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index"]
        command += ["--disable-pip-version-check", "--no-warn-script-location"]
        command += ["--find-links", str(wheels), "--upgrade", "--target", str(site), NEEDED[name]]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise Lacking(f"pip took more than {_LIMIT_S:g} s to unpack {name}") from None
        if done.returncode != 0 and name in needed:
            last = (done.stderr.strip().splitlines() or ["no reason"])[-1]
            raise Lacking(f"{_advice([name], wheels)}; pip said: {last}")


def _advice(names: list[str], wheels: Path) -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return (
        f"{sys.executable} lacks {', '.join(names)}, and {wheels} has no wheel of it; "
        f"where there is a package index: make gpu-wheels GPU_VERSION={version}, and copy wheels/"
    )


def main(words: list[str]) -> int:
    if words == ["--list"]:
        print("\n".join(NEEDED.values()))
        return 0
    try:
        site = provide(WHEELS, site_folder())
    except Lacking as error:
        print(error, file=sys.stderr)
        return 2
    paths = os.pathsep.join(filter(None, [site, os.environ.get("PYTHONPATH")]))
    os.environ["PYTHONPATH"] = paths
    return os.execv(sys.executable, [sys.executable, *words])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
