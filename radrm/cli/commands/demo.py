"""`radrm demo`: real processes queue, share, crash and recover on software GPUs.

Two private daemons, each with four modelled A100s and a clock that runs fast, are given
the same dozen jobs at the same time: one shares its GPUs (`magm`), the other gives each
whole to one job (`exclusive`). It succeeds only if every job did, one of them by recovery
from an out-of-memory crash; a slow machine may keep the second run from its end.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from rich.console import Console
from rich.live import Live

from radrm.cli.show.demo import Changes, Scene, comparison, live_view
from radrm.cli.show.render import jobs_table, out
from radrm.client.exits import FINAL
from radrm.core.units import show_mib
from radrm.errors import plain
from radrm.experiments.demo.jobs import LIAR, MODELS, write_job_files
from radrm.experiments.demo.numbers import Figures, Meter, figures, verdict
from radrm.experiments.demo.server import DemoServer, submitted

GPUS = "sim:4xA100-40GB"
TIME_SCALE = 60.0
LIMIT_S = 75.0
"""Real seconds from the command's start, after which nothing is waited for any more."""
_REFRESH_S = 0.25
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def demo() -> None:
    """Show it all once on software GPUs, in less than a minute."""
    began = time.monotonic()
    console = out()
    console.print(
        f"Two servers of four modelled GPUs ({GPUS}), a clock at {TIME_SCALE:.0f}x, and the same "
        f"{len(MODELS)} jobs on both: one shares its GPUs, the other does not. Job {LIAR} declares "
        "too little memory: where it shares, it will crash and be recovered.\n"
    )
    with _orderly_end(), tempfile.TemporaryDirectory(prefix="radrm-demo-") as folder:
        sharing = Run("sharing", _server(folder, "sharing", "magm"))
        alone = Run("exclusive", _server(folder, "exclusive", "exclusive"))
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
            _watch(runs, console, began)
            good = _tell(sharing, alone, console)
    raise typer.Exit(0 if good else 1)


def _server(folder: str, name: str, policy: str) -> DemoServer:
    settings = (f"policy={policy}", "mps.enabled=true")
    return DemoServer(Path(folder) / name, GPUS, TIME_SCALE, settings)


@contextlib.contextmanager
def _orderly_end() -> Iterator[None]:
    """The first Ctrl-C, TERM or hang-up ends all in order; later ones do not disturb that."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    caught = [number for number in _SIGNALS if before[number] is not signal.SIG_IGN]

    def end(number: int, frame: FrameType | None) -> None:
        for each in caught:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in caught:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, before[number])


def _say_stopped(kind: type[BaseException] | None, *_: object) -> None:
    """Once the live view has ended, which would draw over it."""
    if kind is SystemExit:
        print("radrm: stopped; the demo ends its jobs and daemons", file=sys.stderr)


# ------------------------------------------------------------------ watching


@dataclass(slots=True)
class Run:
    """One of the two servers, and what has been seen of it."""

    title: str
    server: DemoServer
    meter: Meter = field(default_factory=Meter)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    sharers: int = 0
    """The most jobs seen on one GPU at once."""

    @property
    def over(self) -> bool:
        return len(self.jobs) == len(MODELS) and all(j["state"] in FINAL for j in self.jobs)

    def look(self) -> Scene:
        """As it is now. What it shows after its last job's end does not count."""
        counts = not self.over
        self.jobs = self.server.ask("status", all=True)
        devices = self.server.ask("gpus")
        now = self.server.ask("ping")["now"]
        if counts:
            self.meter.add(now, devices)
            self.sharers = max(self.sharers, *(len(device["jobs"]) for device in devices))
        return Scene(self.title, self.jobs, devices, now)

    def figures(self) -> Figures:
        numbers = [str(job["id"]) for job in self.jobs]
        return figures([self.server.ask("explain", jobs=[n]) for n in numbers], self.meter)


def _watch(runs: list[Run], console: Console, began: float) -> None:
    """Until all jobs have ended on both, or the time is up."""
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    changes = Changes(console)
    with live or contextlib.nullcontext():
        while True:
            scenes = [run.look() for run in runs]
            seconds = time.monotonic() - began
            if live is not None:
                live.update(live_view(scenes), refresh=True)
            else:
                for scene in scenes:
                    changes.say(scene, seconds)
            if all(run.over for run in runs) or seconds > LIMIT_S:
                return
            time.sleep(_REFRESH_S)


# ------------------------------------------------------------------ telling


def _tell(sharing: Run, alone: Run, console: Console) -> bool:
    """What happened, and what to type next. True if all went as it should."""
    if not console.is_terminal:
        scene = sharing.look()
        console.print()
        console.print(jobs_table(scene.jobs, scene.devices, scene.now))
    console.print(f"\nOn the sharing server at most {sharing.sharers} jobs were on one GPU.")
    recovered = [j for j in sharing.jobs if j["oom_count"] and j["state"] == "COMPLETED"]
    for job in recovered:
        console.print(
            f"{job['name']} declared {show_mib(job['estimate_mib'])} and needed "
            f"{show_mib(job['peak_mib'])}: it died of GPU out-of-memory, went first in line, "
            "started again on an idle GPU, and completed."
        )
    wrong = _wrong(sharing, alone, [job["name"] for job in recovered])
    if wrong:
        for line in wrong:
            console.print(line, markup=False)
        console.print("[bold red]The demo failed.[/] Please report what you see above.")
        return False
    measured = {run.title: run.figures() for run in (sharing, alone)}
    console.print()
    console.print(comparison(measured))
    if not alone.over:
        done = measured[alone.title]
        console.print(
            f"The exclusive server was not done after {LIMIT_S:.0f} s ({done.finished} of "
            f"{done.jobs} jobs): its numbers with > are of what was seen until then."
        )
    console.print(f"\n[bold]{verdict(*measured.values())}[/]")
    console.print(
        f"(Time of the modelled clock, {TIME_SCALE:.0f} times as fast as yours; GPUs are models.)"
    )
    console.print(
        "\nNext, with a daemon of your own (on a GPU server: radrm daemon):\n"
        f"  radrm daemon --gpus {GPUS} --time-scale 60\n"
        "  radrm submit --gpu-memory=8G -- radrm-simjob --gpu-memory 8G --seconds 300\n"
        "  radrm gpus           each GPU's memory, SM activity and jobs\n"
        "  radrm explain JOB    why a job waits: the rule, with both numbers\n"
        "The tutorial goes on from here: docs/tutorial.md"
    )
    return True


def _wrong(sharing: Run, alone: Run, recovered: list[str]) -> list[str]:
    """What did not go as it should, a line each."""
    found = []
    for run in (sharing, alone):
        for job in run.jobs:
            if job["state"] != "COMPLETED" and (run is sharing or job["state"] in FINAL):
                said = f"{run.title}: job {job['id']} {job['name']} is {job['state']}"
                found.append(plain(f"{said}: {job['reason'] or 'it was not done in time'}"))
        if len(run.jobs) != len(MODELS):
            found.append(f"{run.title}: {len(run.jobs)} of {len(MODELS)} jobs were taken in")
    if LIAR not in recovered:
        found.append(f"sharing: {LIAR} was to crash and to be recovered")
    if sharing.sharers < 2:
        found.append("sharing: no two jobs shared a GPU")
    if alone.sharers > 1:
        found.append("exclusive: two jobs shared a GPU")
    return found
