"""The wheel in a new environment, as pipx and uv make one: its commands, a daemon and a job.

    python -m proofs.packaging.installed

No package index is asked: the packages that radrm needs are those of the Python that runs this.
The sources are unpacked and built too, and two builds of the wheel must be equal.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from pathlib import Path

from tests.paths import REPOSITORY

_PATIENCE_S = 60.0


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="radrm-package-") as name:
        folder = Path(name)
        first, second = folder / "first", folder / "second"
        _build(REPOSITORY, first)
        with tarfile.open(next(first.glob("*.tar.gz"))) as archive:
            archive.extractall(folder / "sources", filter="data")
        _build(next((folder / "sources").iterdir()), second)
        for one in first.iterdir():
            same = one.read_bytes() == (second / one.name).read_bytes()
            _step(f"{one.name}, built from its own sources, is the same", same)
        _try(next(first.glob("*.whl")), folder)
    print("all steps passed")
    return 0


def _build(sources: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=sources, check=True, capture_output=True)


def _try(wheel: Path, folder: Path) -> None:
    """Install the wheel, start its daemon, and run a job."""
    place = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    pip = [str(place / "bin" / "pip"), "install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(pip, check=True)
    (packages,) = (place / "lib").glob("python3*/site-packages")
    (packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    page = place / "share" / "man" / "man1" / "radrm-submit.1"
    _step("it has manual pages", page.exists())

    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RADRM_", "PYTHON"))}
    environment = {**kept, "RADRM_HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"}

    def radrm(*words: str) -> str:
        command = [str(place / "bin" / "radrm"), *words]
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, check=False
        )
        _step(f"radrm {' '.join(words[:4])}", done.returncode == 0, done.stderr)
        return done.stdout

    radrm("--version")
    where = "import radrm, sys; sys.exit(not radrm.__file__.startswith(sys.prefix))"
    own = subprocess.run([str(place / "bin" / "python"), "-I", "-c", where], check=False)
    _step("it runs its own code", own.returncode == 0)
    command = [str(place / "bin" / "radrmd"), "--gpus", "sim:1xA100-40GB", "--time-scale", "100"]
    with (folder / "daemon.log").open("wb") as log:
        daemon = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
    try:
        until = time.monotonic() + _PATIENCE_S
        while not (folder / "home" / "run" / "radrm.sock").exists():
            if daemon.poll() is not None or time.monotonic() > until:
                _step("its daemon starts", False, (folder / "daemon.log").read_text())
            time.sleep(0.05)
        simulated = ("radrm-simjob", "--gpu-memory", "4G", "--seconds", "20")
        radrm("submit", "--wait", "--gpu-memory=4G", "--", *simulated)
        radrm("submit", "--slurm", "--wait", "--wrap", "squeue && srun true")
        radrm("gpus")
        radrm("estimators")
        for words in (("submit", "--help"), ("completion", "bash"), ("config", "show")):
            radrm(*words)
    finally:
        daemon.terminate()
        daemon.wait()
    radrm("demo", "--help")
    own = "".join(path.read_text() for path in sorted((packages / "radrm").rglob("*.py")))
    for topic in sorted(set(re.findall(r"radrm help ([a-z][\w.-]*\w)", own))):
        radrm("help", topic)


def _step(what: str, passed: object, said: str = "") -> None:
    print(f"{'ok' if passed else 'FAILED':8}{what}", flush=True)
    if not passed:
        raise SystemExit(said or 1)


if __name__ == "__main__":
    sys.exit(main())
