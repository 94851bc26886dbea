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
from radrm.cli.options import Json
from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.render import device_name, out, show_joules, show_smact, show_watts
from radrm.client.text import print_json, warn
from radrm.core.units import parse_seconds, show_mib, show_seconds
from radrm.errors import DeviceError, Refused, UsageError, plain
from radrm.experiments.collocate.numbers import (
    Results,
    Round,
    coarse,
    parse_copies,
    parse_modes,
    verdict,
)
from radrm.experiments.collocate.pcie import Link
from radrm.experiments.collocate.place import (
    Manager,
    choose,
    instances,
    job_around,
    managers,
    note_on,
)
from radrm.experiments.collocate.rounds import Bench, Work
from radrm.experiments.collocate.server import BenchServer, orderly_end
from radrm.experiments.collocate.steps import compiled
from radrm.host.storage.paths import client_paths

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
        str | None,
        typer.Option(metavar="LIST", help="timeslice, mps, mig; what there is if not said."),
    ] = None,
    step_pattern: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="What a line that tells progress looks like."),
    ] = None,
    seconds: Annotated[
        str | None, typer.Option(metavar="TIME", help="End each round after so long at work.")
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
    wanted = _usage("--modes", parse_modes, modes) if modes is not None else None
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
        devices = _take(servers, gpu)
        device = devices[0]
        if device["kind"] == "mig" and any(number > len(devices) for number in numbers):
            warn(f"GPU {device['index']} has {len(devices)} such instances: so many copies at most")
            numbers = [number for number in numbers if number <= len(devices)]
        results, notes = _measure(servers, devices, work, _modes(device, wanted), numbers, wanted)
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


def _take(servers: _Servers, wanted: str | None) -> list[Document]:
    """The document of a GPU that may be measured on, or those of MIG instances that are alike.

    Raises Refused where there is none.
    """
    with servers.serving("choosing") as server:
        devices = server.devices()
    around, others = None, list[Manager]()
    if servers.gpus is None:
        candidates = client_paths(os.environ, os.getuid())
        around = job_around(os.environ, candidates)
        others = managers(candidates)
    chosen = choose(devices, wanted, around, others, ["radrm", *sys.argv[1:]])
    return instances(devices, chosen)


def _modes(device: Document, wanted: Sequence[str] | None) -> Sequence[str]:
    """How copies can share this device, or are told to. Raises Refused where it cannot be."""
    able = ("mig",) if device["kind"] == "mig" else ("timeslice", "mps")
    unable = [mode for mode in wanted or () if mode not in able]
    if unable:
        state = "cut into MIG instances" if able == ("mig",) else "not cut into MIG instances"
        raise Refused(
            f"GPU {device['index']} is {state}: --modes={','.join(able)} can be measured there; "
            "choose another with --gpu"
        )
    return wanted or able


# ------------------------------------------------------------------ measuring


def _measure(
    servers: _Servers,
    devices: Sequence[Document],
    work: Work,
    modes: Sequence[str],
    numbers: Sequence[int],
    wanted: Sequence[str] | None,
) -> tuple[Results, list[str]]:
    """Every number of copies in every mode, and what had to be left out.

    Each mode has a daemon of its own, so that no MPS server is near what is time-sliced.
    """
    results = Results()
    uuids = [device["uuid"] for device in devices]
    for mode in modes:
        try:
            _measure_mode(servers, uuids, work, mode, numbers, results)
        except _NotOffered as error:
            if wanted is not None:
                raise Refused(f"MPS cannot be had here: {error}") from None
            return results, [f"MPS is left out: {error}"]
    return results, []


class _NotOffered(Exception):
    """This server cannot do that on that GPU."""


def _measure_mode(
    servers: _Servers,
    uuids: Sequence[str],
    work: Work,
    mode: str,
    numbers: Sequence[int],
    results: Results,
) -> None:
    """More copies than ran out of memory are not tried. Raises _NotOffered."""
    uuid = uuids[0]
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
        server.take_only(uuids)
        link = Link(uuid if servers.gpus is None else "")
        ends.callback(link.close)
        rounds = Bench(server, uuids, work, link)
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
    if device["kind"] == "mig":
        notes.append(
            f"each copy had a MIG instance ({device['profile']}) of its own, one alone as well: "
            "what the whole GPU does without MIG is not in these numbers"
        )
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
        "gpu": {key: device[key] for key in ("uuid", "index", "name", "total_mib", "profile")},
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
            Column("PCIE RX", right=True, rank=9),
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
            _show_rate(measured.pcie_rx_mb_s),
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


def _show_rate(mb_s: float | None) -> str:
    if mb_s is None:
        return "-"
    return f"{mb_s / 1000:.2f}GB/s" if mb_s >= 1000 else f"{mb_s:.0f}MB/s"


def _show_step(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.3g}ms" if seconds < 1 else f"{seconds:.3g}s"
