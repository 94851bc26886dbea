"""Show the results of `radrm bench collocate` to people."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from radrm.cli.show.amounts import show_joules, show_smact, show_watts
from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.devices import device_name
from radrm.cli.show.styled import Styled, show
from radrm.client.text import Document
from radrm.core.units import show_mib, show_seconds
from radrm.errors import plain
from radrm.experiments.collocate.numbers import Results, Round, verdict
from radrm.experiments.collocate.rounds import Work


def show_collocation(device: Document, work: Work, results: Results, notes: Sequence[str]) -> None:
    title = f"{shlex.join(work.command)} on GPU {device['index']} ({device_name(device)})"
    show(Styled(plain(title)), table(results), Styled(verdict(results)))
    for note in notes:
        show(Styled(f"Note: {plain(note)}"))


def table(results: Results) -> Rows:
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
