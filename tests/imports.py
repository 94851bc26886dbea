"""What a program imports: each in a new interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

from tests.paths import REPOSITORY


def imported_by(code: str, *words: str, env: Mapping[str, str] = os.environ) -> set[str]:
    """The modules that `code` imports beyond those that Python starts with; `words` are its
    arguments. It may end by `sys.exit` or `os._exit`."""
    program = (
        "import os, sys; before = set(sys.modules); os._exit = sys.exit\n"
        f"try: exec({code!r})\n"
        "except SystemExit: pass\n"
        "print('\\n', *(set(sys.modules) - before), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**env, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())
