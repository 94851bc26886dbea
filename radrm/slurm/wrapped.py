"""Batch scripts that run through `radrm slurm-step`.

    #!/usr/bin/env -S radrm slurm-step
    #RAD-OPTION --time=7200
    #!/bin/bash
    python train.py

The first line makes Slurm start the step with the script. Lines of `#RAD-OPTION` right below have
options that were typed, and override those of the script. The rest is the script as it was, which
the step submits.

`job_submit.lua` makes the same first line. Below it `#RAD-GPUMEM 8192` has the GPU memory that was
asked of Slurm for all GPUs of the job, in MiB; without the line that was the default. It counts
where the script does not declare another need.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from radrm.errors import BadFile
from radrm.jobfile.command_line import STDIN, parse_submit
from radrm.jobfile.options import RawOptions

FIRST = "#!/usr/bin/env -S radrm slurm-step"
OPTION = "#RAD-OPTION "
GPUMEM = "#RAD-GPUMEM "
_IS_FIRST = re.compile(r"#!\s*\S.*\bradrm\s+slurm-step\s*$")
_MOST_OPTIONS = 200
_LONGEST = 10
"""Digits of an amount."""


def is_wrapped(script: str) -> bool:
    """Return whether Slurm runs this script through the step."""
    return _IS_FIRST.match(script.partition("\n")[0]) is not None


def wrap(script: str, options: Sequence[str] = ()) -> str:
    """Return the script that runs this one through the step, with options that override its own,
    one word each."""
    lines = [FIRST, *(OPTION + shlex.quote(word) for word in options)]
    return "\n".join(lines) + "\n" + unwrap(script)[0]


def asked_mib(script: str) -> int | None:
    """Return the MiB of GPU memory that were asked of Slurm; None: its default, or unknown."""
    first, _, rest = script.partition("\n")
    if _IS_FIRST.match(first) is None or not rest.startswith(GPUMEM):
        return None
    text = rest.partition("\n")[0].removeprefix(GPUMEM)
    whole = text.isascii() and text.isdigit() and len(text) < _LONGEST
    return int(text) or None if whole else None


def unwrap(script: str) -> tuple[str, RawOptions]:
    """Return the script as it was, and the options that override its own.

    Raises `BadFile` for lines of options that cannot be read, and `UsageError` for wrong options.
    """
    if not is_wrapped(script):
        return script, {}
    words: list[str] = []
    rest = script.partition("\n")[2]
    while rest.startswith((OPTION, GPUMEM)) and len(words) < _MOST_OPTIONS:
        line, _, rest = rest.partition("\n")
        if line.startswith(GPUMEM):
            continue
        try:
            words += shlex.split(line.removeprefix(OPTION))
        except ValueError as error:
            raise BadFile(f"job script: {line[:60]!r}: {error}") from None
    if not words:
        return rest, {}
    if any(not word.startswith("--") for word in words):
        raise BadFile("job script: a line of #RAD-OPTION has a word that is no option, as --gpus=2")
    return rest, parse_submit([*words, STDIN]).raw_options
