"""Start the runner of an attempt as the child of its step.

    python -I -S start_step_runner.py FOLDER PARENT

It ends with its step, process PARENT: then Slurm has ended the job, and the daemon ends what is
left of it.
"""

from __future__ import annotations

import os
import sys

if not __package__:
    # Run by its path, isolated: the package that it belongs to has to be found.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from radrm.host.attempts import runner
from radrm.host.processes.tree import die_with


def main(folder: str, parent: int) -> int:
    die_with(parent)
    return runner.main(folder)


if __name__ == "__main__":
    os._exit(main(os.path.abspath(sys.argv[1]), int(sys.argv[2])))
