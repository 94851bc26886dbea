"""Prepare the machine, wait for its report, remove what is left. See the folder's `__init__`."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
LIMIT_S = 400
_ENTER = 'echo $$ > "$1/cgroup.procs"; shift; exec "$@"'
_NAMESPACES = ("--pid", "--mount", "--uts", "--ipc", "--net", "--cgroup")
END = "all steps passed"


def cgroup2() -> str | None:
    """Where cgroup v2 is mounted; None if it is not."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return next((words[1] for words in mounts if words[2] == "cgroup2"), None)


def main(steps: Path = HERE / "steps.py", given: Path | None = None) -> int:
    """Run the steps in the machine. `given`: a file for them, which is below /report there."""
    mounted = cgroup2()
    there = shutil.which("unshare") and os.path.exists("/lib/systemd/systemd")
    if os.geteuid() != 0 or mounted is None or not there:
        print("this needs root, cgroup v2, unshare and Debian's package systemd", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="radrm-systemd-"))
    group = Path(mounted) / folder.name
    group.mkdir()
    try:
        for name in ("disk", "report"):
            (folder / name).mkdir()
        if given is not None:
            shutil.copy(given, folder / "report")
        python = os.path.realpath(sys.executable)
        words = (str(folder), python, str(steps), str(REPOSITORY))
        machine = ["bash", str(HERE / "machine.sh"), *words]
        unshare = ["unshare", *_NAMESPACES, "--fork", "--kill-child", *machine]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                ["bash", "-c", _ENTER, "bash", str(group), *unshare], timeout=LIMIT_S, check=False
            )
        report = folder / "report" / "steps"
        said = report.read_text(errors="replace") if report.exists() else "systemd did not start\n"
        print(said, end="")
        return 0 if said.endswith(f"{END}\n") else 1
    finally:
        for path in sorted(group.rglob("*"), reverse=True):
            if path.is_dir():
                path.rmdir()
        group.rmdir()
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
