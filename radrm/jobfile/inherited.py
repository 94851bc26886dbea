"""What a job inherits of the environment of the job in which it was submitted.

Theory of operation. A job that submits another hands its environment on. What its user has set
there is a wish for the new job; what radrm has set (CPU numbers, GPUs, ids) is true of the outer
job alone. No table of names tells the two apart: the same name may come from either. So radrm
writes down what it sets, in variables that begin with `SET`: names, and checksums of the values. A
submission drops those that still have their value. One that was changed since is its user's.

What a client adds to the environment of one submission, as the options of sbatch do, travels in
`SUBMITTED_WITH`. The daemon puts it into the list of the attempt.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

SET = "RADRM_SET"
"""The list of an attempt. Another list for a part of it has a longer name."""
SET_FOR_TASK = "RADRM_SET_FOR_TASK"
SET_FOR_WORKER = "RADRM_SET_FOR_WORKER"
"""Those of `radrun`: what it knows before a worker begins, and with its generation."""
SET_FOR_GENERATION = "RADRM_SET_FOR_GENERATION"
SET_FOR_STEP = "RADRM_SET_FOR_STEP"
"""That of `srun` inside a job."""
SUBMITTED_WITH = "RADRM_SUBMITTED_WITH"


_AS_BYTES = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()


def list_of(variables: Mapping[str, str]) -> str:
    """Return the list of these variables, as the value of one."""
    return " ".join([f"{name}:{_checksum(value)}" for name, value in variables.items()])


def set_listed(
    environment: MutableMapping[str, str], name: str, variables: Mapping[str, str]
) -> None:
    """Set these variables, and list them under a name beside those that an outer part has set."""
    listed = {**named_in(environment, name), **variables}
    environment.update(variables)
    environment[name] = list_of(listed)


def named_in(environment: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the variables that are in the lists of this prefix, and still have their value."""
    found = {}
    for text in [text for name, text in environment.items() if name.startswith(prefix)]:
        for entry in text.split():
            name, _, checksum = entry.partition(":")
            if name in environment and _checksum(environment[name]) == checksum:
                found[name] = environment[name]
    return found


def drop_outer(environment: MutableMapping[str, str]) -> None:
    """Remove what radrm has set in the environment of a job, and its lists."""
    lists = [name for name in environment if name.startswith(SET)]
    for name in {*named_in(environment, SET), *lists}:
        del environment[name]


def submit_with(environment: MutableMapping[str, str], variables: Mapping[str, str]) -> None:
    """Add variables to the environment from which jobs are submitted. They are no user's wish."""
    drop_outer(environment)
    environment.update(variables)
    environment[SUBMITTED_WITH] = list_of(variables)


def _checksum(value: str) -> str:
    import zlib  # most submissions do not come from a job

    return f"{zlib.crc32(value.encode(*_AS_BYTES)):08x}"
