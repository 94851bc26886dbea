"""Show estimators and their accuracy to people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.styled import Styled, show
from radrm.client.text import Document
from radrm.core.units import show_mib
from radrm.lab.documents import Evaluation
from radrm.lab.experiments.evaluation import LEARNING, Case, accuracy


def show_estimators(rows: Sequence[Document]) -> None:
    table = Rows(
        (Column("ESTIMATOR"), Column("ASKED", right=True), Column("BASED ON", least=20, wrap=True))
    )
    for row in rows:
        table.add(str(row["estimator"]), str(row["asked"] or "-"), str(row["about"]))
    show(table, Styled("ASKED: the place among the estimators that are asked here"))


def show_evaluation(jobs: int, results: Mapping[str, Sequence[Case]]) -> None:
    titles = ("JOBS", "MAPE", "MEDIAN", "UNDER", "WORST UNDER", "WORST OVER", "OVER", "AT MOST")
    columns = [Column("ESTIMATOR"), *(Column(t, right=True) for t in titles)]
    table = Rows((*columns, Column("OVER", right=True), Column("TOOK", right=True)))
    for name, tried in sorted(results.items()):
        table.add(name, *_cells(accuracy(name, tried)))
    show(table)
    show(
        Styled(
            f"of {jobs} measured jobs; UNDER: jobs estimated below the measurement; OVER: "
            "mean overestimate; AT MOST: jobs above the upper bound; TOOK: median"
        ),
    )
    if LEARNING in results:
        show(Styled(f"{LEARNING}: a new machine runs them one after another and learns"))


def _cells(found: Evaluation) -> Iterator[str]:
    yield f"{found.estimated}/{found.jobs}"
    yield _share(found.mape)
    yield _share(found.median_error)
    yield str(found.under)
    yield _signed(found.worst_under_mib)
    yield _signed(found.worst_over_mib)
    yield "-" if found.over_mib is None else show_mib(round(found.over_mib))
    yield str(found.upper_under)
    yield "-" if found.upper_over_mib is None else show_mib(round(found.upper_over_mib))
    yield "-" if found.seconds is None else f"{found.seconds * 1e3:.1f} ms"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.1f} %"


def _signed(mib: float | None) -> str:
    if mib is None:
        return "-"
    return f"{'-' if mib < 0 else '+'}{show_mib(abs(round(mib)))}"
