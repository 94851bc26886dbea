"""A progress bar on standard error, for long work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(what: str = "runs") -> Iterator[Callable[[int, int], None]]:
    """A function of the runs (or else) that are done and of all. On a terminal it draws a bar if
    there are several."""
    if not sys.stderr.isatty():
        yield lambda done, runs: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # It draws without a thread of its own, because processes are forked meanwhile.
    with Progress(
        *columns, console=Console(stderr=True), transient=True, auto_refresh=False
    ) as bar:
        task = bar.add_task(what, visible=False)

        def draw(done: int, runs: int) -> None:
            bar.update(task, completed=done, total=runs, visible=runs > 1, refresh=True)

        yield draw
