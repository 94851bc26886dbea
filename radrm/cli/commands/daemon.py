"""`radrm daemon`: run the daemon in the foreground."""

from __future__ import annotations

import gc
import os
import sys

from radrm.cli.parameters import FLAG, TEXT, TEXTS, Parameter
from radrm.errors import UsageError
from radrm.host.storage.paths import paths_for, refuse_second

_GPUS = "Use simulated GPUs, as sim:4xA100-40GB."
_SCALE = "Run the clock of simulated GPUs N times as fast."
_SET = "Change a setting, as policy=exclusive."
_PRIVATE = "Serve you alone, on a server that has a radrm for all users."
DAEMON_PARAMETERS = (
    Parameter("gpus", TEXTS, _GPUS, "sim:SPEC", ("--gpus",)),
    Parameter("time_scale", TEXT, _SCALE, "N", ("--time-scale",)),
    Parameter("private", FLAG, _PRIVATE, flags=("--private",)),
    Parameter("settings", TEXTS, _SET, "KEY=VALUE", ("--set",)),
)


def daemon(gpus: list[str], time_scale: str, private: bool, settings: list[str]) -> None:
    """Run the daemon until Ctrl-C or TERM; jobs go on without it."""
    scale = _scale_of(time_scale)
    from shlex import join  # here, like what follows

    way = join(["radrm", "daemon", "--private", *sys.argv[2:]])
    refuse_second(os.environ, os.getuid(), private, way)
    # Imported here, so that the imports for the help text stay few. What they make stays: to look
    # for garbage in it would be a tenth of the start, and part of each later search.
    gc.disable()
    from radrm.daemon.main import run, set_up_logging
    from radrm.host.storage.database import damage_told

    gc.freeze()
    gc.enable()
    set_up_logging()
    with damage_told(paths_for(os.environ, os.getuid()).database):
        # The last one rules. An empty text is none of them: it asks for no real GPUs.
        run(gpus[-1] if gpus else None, scale, settings)


def _scale_of(text: str) -> float:
    try:
        scale = float(text or 1)
    except ValueError:
        scale = 0
    if not 0 < scale <= 10_000:
        raise UsageError(f"--time-scale={text} is not a number above 0 and at most 10000")
    return scale
