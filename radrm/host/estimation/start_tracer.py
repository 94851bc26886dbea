"""Where the tracer's process begins: it becomes the user, and then the user's Python.

    python -I -S start_tracer.py OUTPUT       (what to run, as JSON, on standard input)

OUTPUT is an open descriptor, to which the tracer will write, and to which goes the line
on what went wrong before there was a tracer. Nothing of the user's is opened before the
rights are theirs.
"""

from __future__ import annotations

import json
import os
import resource
import sys

if not __package__:
    # Run by its path, isolated: the package that it belongs to has to be found.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from radrm.host import cgroups
from radrm.host.job_process import CannotStart, drop_rights, enter, execute


def main(output: int) -> None:
    with open(0, "rb", closefd=False) as source:
        launch = json.loads(source.read())
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    memory_bytes = launch["memory_mib"] << 20
    try:
        os.nice(10)  # jobs come first
        if launch["cgroup"] is not None:
            cgroups.join(launch["cgroup"], os.getpid())
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # Of what is written to alone: PyTorch maps far more than it ever touches.
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
        drop_rights(launch)
        os.umask(launch["umask"])
        enter(launch["cwd"])
        os.set_inheritable(output, True)
        execute(launch, None)
    except (CannotStart, OSError, ValueError) as error:
        os.write(output, json.dumps({"error": str(error)}).encode())


if __name__ == "__main__":
    main(int(sys.argv[1]))
