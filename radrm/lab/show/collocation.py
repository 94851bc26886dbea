"""Show the results of `radrm bench collocate` to people."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.devices import device_name
from radrm.cli.show.styled import Styled, show
from radrm.client.amounts import show_joules, show_smact, show_watts
from radrm.client.text import Document
from radrm.core.units import show_mib, show_seconds
from radrm.lab.experiments.collocate.mixed import Mixed, change
from radrm.lab.experiments.collocate.numbers import Copies, Results, Round
from radrm.lab.experiments.collocate.rounds import Work


def show_collocation(device: Document, work: Work, results: Results, notes: Sequence[str]) -> None:
    where = f"n GPU {device['index']} ({device_name(device)})"
    if isinstance(results, Mixed):
        show(Styled(f"O{where}:"))
        for number, command in enumerate(work.programs, start=1):
            show(Styled(f"  {number}: {shlex.join(command)}"))
        show(mixed_table(results))
    elif isinstance(results, Copies):
        show(Styled(f"{shlex.join(work.command)} o{where}"), table(results))
    show(Styled(results.verdict()))
    for note in notes:
        show(Styled(f"Note: {note}"))


def mixed_table(results: Mixed) -> Rows:
    """A row for the programs one after another, and one for each mode together."""
    count = len(results.alone)
    rows = Rows(
        (
            Column("MODE"),
            *(Column(f"PROGRAM {number}", right=True, rank=2) for number in range(1, count + 1)),
            Column("TOTAL", right=True, rank=3),
            Column("CHANGE", right=True),
            Column("SMACT", right=True, rank=5),
            Column("MEMORY", right=True, rank=6),
            Column("ENERGY", right=True, rank=7),
            Column("WHY", least=10),
        )
    )
    energies = [each.energy_j for each in results.alone]
    known = [joules for joules in energies if joules is not None]
    cut = any(each.cut for each in results.alone)
    whole = len(known) == count and not cut
    rows.add(
        "one by one",
        *(_of_program(each, 0, None) for each in results.alone),
        show_seconds(results.serial_s),
        "-",
        "-",
        show_mib(max((each.used_mib or 0 for each in results.alone), default=0) or None),
        show_joules(sum(known) if whole else None),
        "; ".join(filter(None, map(_why, results.alone))),
    )
    for measured in results.rounds:
        slower = results.slowdowns(measured)
        changed = change(results.work(measured))
        rows.add(
            measured.mode,
            *(_of_program(measured, program, slower[program]) for program in range(count)),
            show_seconds(measured.makespan_s),
            "-" if changed is None else f"{changed:+.0%}",
            show_smact(measured.smact),
            show_mib(measured.used_mib),
            show_joules(None if measured.cut or not measured.sound else measured.energy_j),
            _why(measured),
        )
    return rows


def _of_program(measured: Round, program: int, slower: float | None) -> str:
    """The time of a program, and by how much that is longer than alone."""
    run = measured.runs[program]
    times = "" if slower is None else f" {slower:.2f}x"
    if measured.cut or run.outcome != "completed":
        return times.strip() or "-"
    return show_seconds(run.time_s) + times


def table(results: Copies) -> Rows:
    """A row for each round; `-` for values that were not measured."""
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
            Column("POWER", right=True, rank=8),
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
            _show_times(results.work(measured)),
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
