"""Batch scripts that run through `radrm slurm-step`.

    #!/usr/bin/env -S radrm slurm-step
    #RAD-GPUMEM
    #RAD-OPTION --time=7200
    #!/bin/bash
    python train.py

The first line makes Slurm start the step with the script. `#RAD-GPUMEM` says that radrm has chosen
the job's `gpumem`, by an estimate or as the default: without it, that is what the user has asked
for. Lines of `#RAD-OPTION` have options that were typed, and override those of the script. The rest
is the script as it was, which the step submits. `job_submit.lua` makes the same lines.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from radrm.errors import BadFile
from radrm.jobfile.command_line import STDIN, parse_submit
from radrm.jobfile.options import RawOptions

FIRST = "#!/usr/bin/env -S radrm slurm-step"
GPUMEM = "#RAD-GPUMEM"
OPTION = "#RAD-OPTION "
_IS_FIRST = re.compile(r"#!\s*\S.*\bradrm\s+slurm-step\s*$")
_MOST_OPTIONS = 200


def is_wrapped(script: str) -> bool:
    """Return whether Slurm runs this script through the step."""
    return _IS_FIRST.match(script.partition("\n")[0]) is not None


def is_gpumem_asked(script: str) -> bool:
    """Return whether its user has chosen the GPU memory that its job has asked of Slurm."""
    return not (is_wrapped(script) and script.split("\n", 2)[1:2] == [GPUMEM])


def wrap(script: str, options: Sequence[str] = ()) -> str:
    """Return the script that runs this one through the step, with options that override its own,
    one word each. radrm chooses its GPU memory."""
    lines = [FIRST, GPUMEM, *(OPTION + shlex.quote(word) for word in options)]
    return "\n".join(lines) + "\n" + unwrap(script)[0]


def unwrap(script: str) -> tuple[str, RawOptions]:
    """Return the script as it was, and the options that override its own.

    Raises `BadFile` for lines of options that cannot be read, and `UsageError` for wrong options.
    """
    if not is_wrapped(script):
        return script, {}
    words: list[str] = []
    rest = script.partition("\n")[2]
    if not is_gpumem_asked(script):
        rest = rest.partition("\n")[2]
    while rest.startswith(OPTION) and len(words) < _MOST_OPTIONS:
        line, _, rest = rest.partition("\n")
        try:
            words += shlex.split(line.removeprefix(OPTION))
        except ValueError as error:
            raise BadFile(f"job script: {line[:60]!r}: {error}") from None
    if not words:
        return rest, {}
    if any(not word.startswith("--") for word in words):
        raise BadFile("job script: a line of #RAD-OPTION has a word that is no option, as --gpus=2")
    return rest, parse_submit([*words, STDIN]).raw_options
