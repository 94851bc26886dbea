"""`radrm bench`: measurements on this server. `collocate`: does sharing a GPU pay for my job?"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from radrm import __version__
from radrm.cli.bench_numbers import (
    Results,
    Round,
    coarse,
    parse_copies,
    parse_modes,
    verdict,
)
from radrm.cli.bench_place import Manager, choose, job_around, managers, note_on
from radrm.cli.bench_rounds import Bench, Work
from radrm.cli.bench_server import BenchServer, orderly_end
from radrm.cli.bench_steps import compiled
from radrm.cli.columns import Column, Rows
from radrm.cli.options import Json
from radrm.cli.render import (
    device_name,
    out,
    plain,
    print_json,
    show_joules,
    show_smact,
    show_watts,
    warn,
)
from radrm.core.units import parse_seconds, show_mib, show_seconds
from radrm.errors import DeviceError, Refused, UsageError
from radrm.host.paths import client_paths

Document = dict[str, Any]
T = TypeVar("T")

bench = typer.Typer(
    name="bench",
    help="Measure on this server.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@bench.callback()
def _bench() -> None:
    """So that `collocate` stays a word of its own while it is the only one."""


@bench.command(context_settings={"allow_interspersed_args": False})
def collocate(
    command: Annotated[list[str], typer.Argument(metavar="CMD...", help="A job of yours.")],
    copies: Annotated[
        str, typer.Option(metavar="LIST", help="How many copies at once; 1 is always among them.")
    ] = "1,2,4",
    gpu: Annotated[
        str | None, typer.Option(metavar="GPU", help="Index or UUID; the first free one if none.")
    ] = None,
    modes: Annotated[
        str | None, typer.Option(metavar="LIST", help="timeslice, mps; what there is if not said.")
    ] = None,
    step_pattern: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="What a line that tells progress looks like."),
    ] = None,
    seconds: Annotated[
        str | None, typer.Option(metavar="TIME", help="End each round after so long.")
    ] = None,
    gpus: Annotated[
        str | None, typer.Option(metavar="sim:SPEC", help="On software GPUs, as sim:1xA100-40GB.")
    ] = None,
    time_scale: Annotated[
        float, typer.Option(min=1.0, help="The clock of software GPUs.", show_default=False)
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """Run 1, 2, 4 copies of a command on one GPU, and say whether sharing it pays.

    For every number of copies, by time-slicing and by MPS: the time of a copy, the work
    done per time compared with one copy alone, SM activity, memory and energy. A daemon of
    its own does the placing; a GPU that another radrm daemon gives out is left to it.

    With --step-pattern the time of a step is measured, start-up left out. Its group
    (?P<step>...), or its first, is the number of the step; without one, a line is a step.
    Each copy finds its number in RADRM_ARRAY_TASK_ID, to write where no other does.

    \b
    Examples:
      radrm bench collocate -- python train.py --epochs 1
      radrm bench collocate --seconds 60 --step-pattern 'step (\\d+)' -- python train.py
      radrm bench collocate --gpus sim:1xA100-40GB --time-scale 60 -- \\
        radrm-simjob --gpu-memory 6G --smact 0.4 --seconds 300
    """
    numbers = _usage("--copies", parse_copies, copies)
    wanted = _usage("--modes", parse_modes, modes or "timeslice,mps")
    limit_s = _usage("--seconds", parse_seconds, seconds) if seconds is not None else None
    pattern = compiled(step_pattern) if step_pattern is not None else None
    if limit_s is not None and pattern is None:
        raise UsageError(
            "--seconds needs --step-pattern: of copies that are cut short only steps compare"
        )
    if gpus is None and time_scale != 1.0:
        raise UsageError("--time-scale goes with software GPUs only: add --gpus sim:1xA100-40GB")
    work = Work(tuple(command), pattern, limit_s)
    with orderly_end(), tempfile.TemporaryDirectory(prefix="radrm-bench-") as folder:
        servers = _Servers(Path(folder), gpus, time_scale)
        device = _take(servers, gpu)
        results, notes = _measure(servers, device, work, wanted, numbers, modes is not None)
    notes += _notes(device, results)
    if as_json:
        print_json(_document(device, work, results, notes))
    else:
        _tell(device, work, results, notes)
    if results.baseline is None:
        raise typer.Exit(1)


def _usage(option: str, read: Callable[[str], T], text: str) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


# ------------------------------------------------------------------ a GPU to measure on


@dataclass(frozen=True, slots=True)
class _Servers:
    """Daemons of our own, one after another, each in a folder of its own."""

    folder: Path
    gpus: str | None
    time_scale: float

    @contextlib.contextmanager
    def serving(self, name: str, mps_on: str | None = None) -> Iterator[BenchServer]:
        """One that answers. Raises DeviceError where none can be had."""
        server = BenchServer(self.folder / name, self.gpus, self.time_scale, mps_on)
        try:
            server.start()
            server.await_answer()
            yield server
        finally:
            server.end()


def _take(servers: _Servers, wanted: str | None) -> Document:
    """The document of a GPU that may be measured on. Raises Refused where there is none."""
    with servers.serving("choosing") as server:
        devices = server.devices()
    around, others = None, list[Manager]()
    if servers.gpus is None:
        candidates = client_paths(os.environ, os.getuid())
        around = job_around(os.environ, candidates)
        others = managers(candidates)
    return choose(devices, wanted, around, others, ["radrm", *sys.argv[1:]])


# ------------------------------------------------------------------ measuring


def _measure(
    servers: _Servers,
    device: Document,
    work: Work,
    modes: Sequence[str],
    numbers: Sequence[int],
    insisted: bool,
) -> tuple[Results, list[str]]:
    """Every number of copies in every mode, and what had to be left out.

    Each mode has a daemon of its own, so that no MPS server is near what is time-sliced.
    """
    results = Results()
    for mode in modes:
        try:
            _measure_mode(servers, device["uuid"], work, mode, numbers, results)
        except _NotOffered as error:
            if insisted:
                raise Refused(f"MPS cannot be had here: {error}") from None
            return results, [f"MPS is left out: {error}"]
    return results, []


class _NotOffered(Exception):
    """This server cannot do that on that GPU."""


def _measure_mode(
    servers: _Servers,
    uuid: str,
    work: Work,
    mode: str,
    numbers: Sequence[int],
    results: Results,
) -> None:
    """More copies than ran out of memory are not tried. Raises _NotOffered."""
    with contextlib.ExitStack() as ends:
        try:
            serving = servers.serving(mode, uuid if mode == "mps" else None)
            server = ends.enter_context(serving)
        except DeviceError as error:
            if mode != "mps":
                raise
            raise _NotOffered(str(error)) from None
        why_not = server.why_no_mps(uuid) if mode == "mps" else None
        if why_not is not None:
            raise _NotOffered(why_not)
        server.take_only(uuid)
        rounds = Bench(server, uuid, work)
        for copies in numbers:
            warn(f"{mode}: {'1 copy' if copies == 1 else f'{copies} copies'} ...")
            measured = rounds.measure(mode, copies)
            results.rounds.append(measured)
            if measured.oom:
                warn(f"{mode}: {measured.oom} of {copies} ran out of GPU memory")
                break


def _notes(device: Document, results: Results) -> list[str]:
    notes = []
    disturbed = note_on(device)
    if disturbed is not None:
        notes.append(disturbed)
    if coarse(results.rounds):
        notes.append(
            "SMACT is only the share of time with any kernel running here: no better source is "
            "there (radrm doctor)"
        )
    return notes


# ------------------------------------------------------------------ telling


def _document(
    device: Document, work: Work, results: Results, notes: Sequence[str]
) -> dict[str, Any]:
    best = results.best()
    return {
        "gpu": {key: device[key] for key in ("uuid", "index", "name", "total_mib")},
        "command": list(work.command),
        "step_pattern": work.pattern.pattern if work.pattern is not None else None,
        "seconds": work.limit_s,
        "measured_at": time.time(),
        "radrm": __version__,
        "rounds": results.documents(),
        "best": {"mode": best.mode, "copies": best.copies} if best is not None else None,
        "notes": list(notes),
    }


def _tell(device: Document, work: Work, results: Results, notes: Sequence[str]) -> None:
    console = out()
    title = f"{shlex.join(work.command)} on GPU {device['index']} ({device_name(device)})"
    console.print(plain(title), markup=False, soft_wrap=True)
    console.print(table(results))
    console.print(verdict(results), markup=False)
    for note in notes:
        console.print(f"Note: {plain(note)}", markup=False, soft_wrap=True)


def table(results: Results) -> Rows:
    """One row a round. What was not measured is a `-`."""
    rows = Rows(
        (
            Column("MODE"),
            Column("COPIES", right=True),
            Column("TIME", right=True, rank=3),
            Column("STEP", right=True, rank=2),
            Column("WORK", right=True),
            Column("SLOWER", right=True, rank=4),
            Column("SMACT", right=True, rank=5),
            Column("MEMORY", right=True, rank=6),
            Column("WATT", right=True, rank=8),
            Column("ENERGY/COPY", right=True, rank=7),
            Column("WHY", least=10),
        )
    )
    for measured in results.rounds:
        rows.add(
            measured.mode,
            str(measured.copies),
            show_seconds(measured.time_s),
            _show_step(measured.step_s),
            _show_times(results.throughput(measured)),
            _show_times(results.slowdown(measured)),
            show_smact(measured.smact),
            show_mib(measured.used_mib),
            show_watts(measured.power_w),
            show_joules(measured.energy_per_copy_j),
            _why(measured),
        )
    return rows


def _why(measured: Round) -> str:
    if measured.oom:
        return f"{measured.oom} of {measured.copies} out of GPU memory"
    return "" if measured.sound else "not all copies ended well"


def _show_times(factor: float | None) -> str:
    return "-" if factor is None else f"{factor:.2f}x"


def _show_step(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.3g}ms" if seconds < 1 else f"{seconds:.3g}s"
