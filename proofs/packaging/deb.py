"""Build the Debian package, have lintian look at it, and try it under a real systemd.

python -m proofs.packaging.deb    (root, and what `make systemd` needs; two minutes)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from proofs.systemd import run
from tests.paths import REPOSITORY

STEPS = Path(__file__).parent / "deb_steps.py"
_BUILDER = {"DEBFULLNAME": "radrm test build", "DEBEMAIL": "test@radrm.invalid"}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="radrm-deb-test-") as folder:
        packages = [build(Path(folder) / name) for name in ("first", "second")]
        same = packages[0].read_bytes() == packages[1].read_bytes()
        print(f"{'ok' if same else 'FAILED':8}two builds are equal", flush=True)
        if not same:
            return 1
        if shutil.which("lintian") is None:
            print("skipped lintian: install Debian's package lintian", flush=True)
        elif lint(packages[0]) != 0:
            return 1
        return run.main(STEPS, packages[0])


def build(folder: Path) -> Path:
    """The package, built by `make deb` into a folder."""
    command = [sys.executable, "-m", "tools.deb", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, env={**os.environ, **_BUILDER}, check=True)
    (package,) = folder.glob("*.deb")
    return package


def lint(package: Path) -> int:
    command = ["lintian", "--fail-on", "error", "--allow-root", str(package)]
    code = subprocess.run(command, check=False).returncode
    print(f"{'FAILED' if code else 'ok':8}lintian finds no error", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
