"""Start a runner, once its job's control group is as the daemon wants it.

    python -I -S start_runner.py FOLDER

With the variable of `GATED` the job begins only after the daemon has written to the pipe `GATE`: it
sets up the group meanwhile. A daemon that died did not finish that: then nothing begins, and the
launch is void. One that is silent does not keep the job waiting for long.
"""

from __future__ import annotations

import os
import select
import sys

if not __package__:
    # Run by its path, isolated: the package that it belongs to has to be found.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from radrm.host.attempts import folder as attempts
from radrm.host.attempts import runner
from radrm.host.processes import cgroups

GATE = 3
"""The descriptor of the pipe, which is closed here."""
_VARIABLE = "RADRM_RUNNER_GATED"
GATED = {_VARIABLE: "1"}
"""What a runner with such a pipe has in its environment."""
_GATE_S = 10.0


def main(folder: str) -> int:
    """Run the attempt in a new interpreter; return the exit status."""
    return 0 if run(folder, _VARIABLE in os.environ, held=False) is not False else 1


def run(folder: str, gated: bool, held: bool = True) -> bool | None:
    """Run the attempt, and return as `runner.run` does; None if its gate never opened."""
    opens = not gated or _opens()
    if gated:
        os.close(GATE)
    if not opens:
        launch, _ = attempts.read_record(folder, attempts.LAUNCH)
        if launch is not None and launch["cgroup"] is not None:
            cgroups.remove(launch["cgroup"])
        return None
    return runner.run(folder, held)


def _opens() -> bool:
    """Wait at the gate; False if the daemon has died."""
    ready, _, _ = select.select([GATE], [], [], _GATE_S)
    return not ready or os.read(GATE, 1) != b""


if __name__ == "__main__":
    os._exit(main(os.path.abspath(sys.argv[1])))
