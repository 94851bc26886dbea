"""Show the results of `radrm profile` to people."""

from __future__ import annotations

from collections.abc import Sequence

from radrm.cli.show.columns import Column, Rows
from radrm.client.amounts import number
from radrm.core.units import show_seconds
from radrm.errors import plain
from radrm.experiments.profiling import Probed


def table(found: Sequence[Probed]) -> Rows:
    """A row for each kind and number of GPUs; `-` for what was not measured."""
    rows = Rows(
        (
            Column("GPU"),
            Column("GPUS", right=True),
            Column("S/STEP", right=True),
            Column("STEPS", right=True, rank=3),
            Column("RUN TIME", right=True),
            Column("NOTE", least=10),
        )
    )
    for each in found:
        rows.add(
            each.kind,
            str(each.gpus),
            "-" if each.step_s is None else f"{each.step_s:.4g}",
            "-" if each.total is None else number(each.total),
            show_seconds(each.whole_s),
            plain(each.why or ""),
        )
    return rows
