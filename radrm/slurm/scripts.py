"""Batch scripts that run through `radrm slurm-step`.

    #!/bin/sh
    # radrm slurm-step        and lines of `wrapper.sh`, which start it
    #RAD-SCRIPT
    #RAD-GPUMEM
    #RAD-OPTION --gpus=2
    #!/bin/bash
    python train.py

The first lines start the step with the script, or give the job back to Slurm on a node that has
no radrm. A user may write one line in their place: `#!/usr/bin/env -S radrm slurm-step`.
`#RAD-GPUMEM` says that radrm has chosen the job's `gpumem`, by an estimate or as the default:
without it, that is what the user has asked for. Lines of `#RAD-OPTION` have options that were
typed, and override those of the script. The rest is the script as it was, which the step submits.
`job_submit.lua` makes the same lines.

Each job's start imports this file, so it imports little.
"""

from __future__ import annotations

import os
import re
import shlex

from radrm.errors import BadFile
from radrm.jobfile.command_line import STDIN, parse_submit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from radrm.jobfile.options import RawOptions


WRAPPER = "#!/bin/sh\n# radrm slurm-step\n"
SCRIPT = "#RAD-SCRIPT\n"
GPUMEM = "#RAD-GPUMEM\n"
OPTION = "#RAD-OPTION "
_IS_FIRST = re.compile(r"#!\s*\S.*\bradrm\s+slurm-step\s*$")
_MOST_OPTIONS = 200


def _inside(script: str) -> str | None:
    """What stands below the lines that start the step; None: it does not run through the step."""
    first, _, rest = script.partition("\n")
    if _IS_FIRST.match(first) is not None:
        return rest
    found = script.partition(f"\n{SCRIPT}") if script.startswith(WRAPPER) else ("", "", "")
    return found[2] if found[1] else None


def is_wrapped(script: str) -> bool:
    """Return whether Slurm runs this script through the step."""
    return _inside(script) is not None


def is_gpumem_asked(script: str) -> bool:
    """Return whether its user has chosen the GPU memory that its job has asked of Slurm."""
    return not (_inside(script) or "").startswith(GPUMEM)


def wrap(script: str, options: Sequence[str] = (), radrm: str = "radrm") -> str:
    """Return the script that runs this one through the step, with options that override its own,
    one word each. radrm chooses its GPU memory. `radrm`: where it is on the nodes."""
    lines = "".join(f"{OPTION}{shlex.quote(word)}\n" for word in options)
    return wrapper(radrm) + SCRIPT + GPUMEM + lines + unwrap(script)[0]


def unwrap(script: str) -> tuple[str, RawOptions]:
    """Return the script as it was, and the options that override its own.

    Raises `BadFile` for lines of options that cannot be read, and `UsageError` for wrong options.
    """
    rest = _inside(script)
    if rest is None:
        return script, {}
    words: list[str] = []
    rest = rest.removeprefix(GPUMEM)
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


def wrapper(radrm: str) -> str:
    """Return the lines by which a batch script starts the step. `radrm`: where it is."""
    return filled("wrapper.sh", {"RADRM": shlex.quote(radrm)})


def filled(name: str, known: Mapping[str, str]) -> str:
    """Return a script that lies beside this file, with these values in place of `@NAME@`."""
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        text = file.read()
    for key, value in known.items():
        text = text.replace(f"@{key}@", value)
    return text
