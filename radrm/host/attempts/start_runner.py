"""Start a runner: enter its job's control group while Python imports the rest.

    python -I -S start_runner.py FOLDER [GROUP]

GROUP is the control group that the launch record in FOLDER names.
"""

from __future__ import annotations

import os
import sys

if not __package__:
    # Run by its path, isolated: the package that it belongs to has to be found.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from radrm.host.attempts.membership import Membership


def main(folder: str, group: str | None) -> int:
    membership = Membership(group) if group is not None else None
    from radrm.host.attempts import runner  # here: this takes as long as to enter the group

    return runner.main(folder, membership)


if __name__ == "__main__":
    os._exit(main(os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))
