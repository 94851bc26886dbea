"""Measure every number of copies in every mode, and what the default policy makes of them.

The default is the goal's policy, `packing`: it adds jobs while the sum of their SM activity alone
stays below a limit, and time-sliced while each adds enough work. The site's own configuration is
not looked at, so the line names settings.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from radrm import __version__
from radrm.client.text import warn
from radrm.config import Config
from radrm.config.goals import resolved
from radrm.errors import DeviceError, Refused
from radrm.host.storage.paths import client_paths
from radrm.interference.model import Demand, activity, speeds
from radrm.lab.experiments.collocate.mixed import Mixed
from radrm.lab.experiments.collocate.numbers import Copies, Results, Round, coarse
from radrm.lab.experiments.collocate.place import (
    Manager,
    choose,
    instances,
    job_around,
    managers,
    note_on,
)
from radrm.lab.experiments.collocate.rounds import Bench, Link, Work
from radrm.lab.experiments.collocate.server import BenchServer
from radrm.policies.packing import Packing


def advise(mode: str, alone: Sequence[float | None]) -> str | None:
    """Return what to set so that radrm runs these programs together; None where nothing decides.

    `alone`: the SM activity of each program alone; None: unknown.
    """
    if mode == "mig":
        return None
    policy = Packing(**resolved(Config()).policies["packing"])
    most, mps = policy.max_demand, mode == "mps"
    setting = "assumed_smact" if mps else "timeslice_assumed_smact"
    assumed: float = getattr(policy, setting)
    demands = [assumed if each is None else each for each in alone]
    total = sum(demands)
    same = len(set(demands)) == 1
    shown = f"{len(demands)} x {demands[0]:.2f}" if same else _sum(demands)
    if None in alone:
        shown += f" (unknown: policies.packing.{setting})"
    with_mps = ", with mps.enabled = true," if mps else ""
    limit = f"policies.packing.max_demand = {most:g}"
    start, demand = f"By default (policy packing){with_mps} radrm", f"{shown} = {total:.2f}"
    *others, last = sorted(demands, reverse=True)
    if total <= most and not mps and others:
        added, least = _work(demands) - _work(others), policy.timeslice_min_gain * last
        if added < least:
            return (
                f"{start} does not share so: SM activity {demand}, but the last job would add "
                f"{added:.2f}, less than {least:.2f}. Lower policies.packing.timeslice_min_gain = "
                f"{policy.timeslice_min_gain:g} to allow this."
            )
    if total <= most:
        return f"{start} shares so: SM activity {demand}, within {limit}."
    return (
        f"{start} does not share so: SM activity {demand} is above {limit}. Raise it to allow this."
    )


def _work(demands: Sequence[float]) -> float:
    """Return the SM activity of time-sliced jobs."""
    found = [Demand(smact) for smact in demands]
    return activity(found, speeds(found, mps=False))


def _sum(demands: Sequence[float]) -> str:
    return " + ".join(f"{each:.2f}" for each in demands)


Document = dict[str, Any]


class Servers(Struct, frozen=True):
    """Private daemons, one after another, each in a folder of its own."""

    folder: Path
    gpus: str | None
    time_scale: float

    @contextlib.contextmanager
    def serving(self, name: str, mps_on: str | None = None) -> Iterator[BenchServer]:
        """A daemon that answers. Raises DeviceError if it cannot start."""
        server = BenchServer(self.folder / name, self.gpus, self.time_scale, mps_on)
        try:
            server.start()
            server.await_answer()
            yield server
        finally:
            server.end()


def take(servers: Servers, wanted: str | None) -> list[Document]:
    """The document of a GPU to measure on, or those of MIG instances of the same kind.

    Raises Refused if there is none.
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


def modes_of(device: Document, wanted: Sequence[str] | None) -> Sequence[str]:
    """The modes in which copies share this device. Raises Refused for an impossible mode."""
    able = ("mig",) if device["kind"] == "mig" else ("timeslice", "mps")
    unable = [mode for mode in wanted or () if mode not in able]
    if unable:
        state = "cut into MIG instances" if able == ("mig",) else "not cut into MIG instances"
        raise Refused(
            f"GPU {device['index']} is {state}: --modes={','.join(able)} can be measured there; "
            "choose another with --gpu"
        )
    return wanted or able


def at_once(devices: Sequence[Document], numbers: Sequence[int], work: Work) -> list[int]:
    """Return the numbers of copies for which there are MIG instances; all of them on a whole GPU.

    Raises Refused if there are too few for different programs.
    """
    index, most = devices[0]["index"], len(devices)
    if devices[0]["kind"] != "mig":
        return list(numbers)
    if work.others and len(work.programs) > most:
        raise Refused(
            f"GPU {index} has {most} such instances, too few for {len(work.programs)} programs"
        )
    if not work.others and any(number > most for number in numbers):
        warn(f"GPU {index} has {most} such instances: at most that many copies")
    return [number for number in numbers if number <= most]


# ------------------------------------------------------------------ measuring


def measure(
    servers: Servers,
    devices: Sequence[Document],
    work: Work,
    modes: Sequence[str],
    numbers: Sequence[int],
    wanted: Sequence[str] | None,
) -> tuple[Results, list[str]]:
    """Measure every number of copies in every mode; or each of several programs alone, in the first
    mode, then all together in every mode. Returns results, and a note on a mode that is left out.

    Each mode has a daemon of its own, so that no MPS server runs during time-slicing. Raises
    Refused where a mode that was wanted is not offered.
    """
    results: Copies | Mixed = Mixed() if work.others else Copies()
    uuids = [device["uuid"] for device in devices]
    for mode in modes:
        try:
            with _bench(servers, uuids, work, mode) as bench:
                if isinstance(results, Mixed):
                    _programs(bench, mode, work, results)
                else:
                    _copies(bench, mode, numbers, results)
        except NotOffered as error:
            if wanted is not None:
                raise Refused(f"MPS is not available here: {error}") from None
            return results, [f"MPS is left out: {error}"]
    return results, []


def _copies(bench: Bench, mode: str, numbers: Sequence[int], results: Copies) -> None:
    """Measure copies, until a number of them runs out of memory."""
    for copies in numbers:
        warn(f"{mode}: {'1 copy' if copies == 1 else f'{copies} copies'} ...")
        results.rounds.append(bench.measure(mode, copies))
        if _dead(results.rounds[-1], mode):
            break


def _programs(bench: Bench, mode: str, work: Work, results: Mixed) -> None:
    everyone = range(len(work.programs))
    if not results.alone:
        for program in everyone:
            warn(f"{mode}: program {program + 1} alone ...")
            results.alone.append(bench.together(mode, [program]))
            _dead(results.alone[-1], mode)
    warn(f"{mode}: {len(everyone)} programs together ...")
    results.rounds.append(bench.together(mode, everyone))
    _dead(results.rounds[-1], mode)


def _dead(measured: Round, mode: str) -> bool:
    """Tell of copies that ran out of GPU memory. Returns whether there are any."""
    if measured.oom:
        warn(f"{mode}: {measured.oom} of {measured.copies} ran out of GPU memory")
    return measured.oom > 0


class NotOffered(Exception):
    """This server does not offer that mode on that GPU."""


@contextlib.contextmanager
def _bench(servers: Servers, uuids: Sequence[str], work: Work, mode: str) -> Iterator[Bench]:
    """A bench whose daemon offers this mode. Raises NotOffered."""
    uuid = uuids[0]
    with contextlib.ExitStack() as ends:
        try:
            serving = servers.serving(mode, uuid if mode == "mps" else None)
            server = ends.enter_context(serving)
        except DeviceError as error:
            if mode != "mps":
                raise
            raise NotOffered(str(error)) from None
        why_not = server.why_no_mps(uuid) if mode == "mps" else None
        if why_not is not None:
            raise NotOffered(why_not)
        server.take_only(uuids)
        link = Link(uuid if servers.gpus is None else "")
        ends.callback(link.close)
        yield Bench(server, uuids, work, link)


def notes_of(device: Document, rounds: Sequence[Round]) -> list[str]:
    notes = []
    disturbed = note_on(device)
    if disturbed is not None:
        notes.append(disturbed)
    if device["kind"] == "mig":
        notes.append(
            f"each copy has a MIG instance ({device['profile']}) of its own, also a copy alone: "
            "these numbers do not say what the whole GPU does without MIG"
        )
    if coarse(rounds):
        notes.append(
            "SMACT is only the share of time with any kernel running: this server has no better "
            "source (radrm doctor)"
        )
    return notes


def advice_on(results: Results) -> list[str]:
    """Return the default policy's settings that decide about the best round; [] if none pays."""
    best = results.best()
    if best is None or (results.work(best) or 0.0) <= 1:
        return []
    line = advise(best.mode, results.smact_alone(best))
    return [line] if line is not None else []


def document(
    device: Document, work: Work, results: Results, notes: Sequence[str]
) -> dict[str, Any]:
    best = results.best()
    others = {"with": [list(each) for each in work.others]} if work.others else {}
    return {
        "gpu": {key: device[key] for key in ("uuid", "index", "name", "total_mib", "profile")},
        "command": list(work.command),
        **others,
        "step_pattern": work.pattern.pattern if work.pattern is not None else None,
        "seconds": work.limit_s,
        "measured_at": time.time(),
        "radrm": __version__,
        "rounds": results.documents(),
        "best": {"mode": best.mode, "copies": best.copies} if best is not None else None,
        "notes": list(notes),
    }
