"""`radrm demo`: real processes queue, share, crash and recover on simulated GPUs.

Two private daemons get the same twelve jobs at the same time. Each has four simulated A100s and
a fast clock. One shares its GPUs (`magm`); the other gives each GPU to one job (`exclusive`). The
demo succeeds only if every job of the first completes, one of them after an out-of-memory crash.
On a slow machine the second run may not finish in time.
"""

from __future__ import annotations

import contextlib
import tempfile
import time

from rich.console import Console
from rich.live import Live

from radrm.cli.show.styled import console as make_console
from radrm.client.text import say
from radrm.lab.experiments.demo.run import (
    GPUS,
    LIAR,
    MODELS,
    TIME_SCALE,
    Run,
    Scene,
    demo_server,
    watch,
    write_job_files,
)
from radrm.lab.experiments.demo.server import orderly_end, submitted
from radrm.lab.show.demo import Changes, live_view, show_end

DEMO_PARAMETERS = ()


def demo() -> int:
    """Show it all once on simulated GPUs, in less than a minute."""
    began_s = time.monotonic()
    console = make_console()
    console.print(
        f"Two servers of four simulated GPUs ({GPUS}), a clock at {TIME_SCALE:.0f}x, and the same "
        f"{len(MODELS)} jobs on both: one shares its GPUs, the other does not. Job {LIAR} declares "
        "too little memory: where GPUs are shared, it will crash and be recovered.\n"
    )
    with orderly_end(), tempfile.TemporaryDirectory(prefix="radrm-demo-") as folder:
        sharing = Run("sharing", demo_server(folder, "sharing", "magm"))
        alone = Run("exclusive", demo_server(folder, "exclusive", "exclusive"))
        runs = [sharing, alone]
        with contextlib.ExitStack() as ends:
            for run in runs:
                ends.callback(run.server.end)
            ends.push(_say_stopped)
            for run in runs:
                run.server.start()
            for run in runs:
                run.server.await_answer()
            submitted([r.server.submit(write_job_files(r.server.work)) for r in runs])
            _watch(runs, console, began_s)
            good = show_end(sharing, alone, console)
    return 0 if good else 1


def _say_stopped(kind: type[BaseException] | None, *_: object) -> None:
    """Print a line after the live view has ended, which would draw over it."""
    if kind is SystemExit:
        say("radrm: stopped; the demo ends its jobs and daemons", error=True)


def _watch(runs: list[Run], console: Console, began_s: float) -> None:
    """Draw on a terminal; in a pipe, print a line for each change."""
    if not console.is_terminal:
        changes = Changes(console)

        def show(scenes: list[Scene], seconds: float) -> None:
            for scene in scenes:
                changes.show(scene, seconds)

        watch(runs, began_s, show)
        return
    with Live(console=console, auto_refresh=False) as live:

        def draw(scenes: list[Scene], seconds: float) -> None:
            live.update(live_view(scenes), refresh=True)

        watch(runs, began_s, draw)
