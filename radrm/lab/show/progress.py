"""A progress bar on standard error, for long work."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_DRAW_S = 0.2


@contextmanager
def progress_bar(what: str = "jobs") -> Iterator[Callable[[int, int], None]]:
    """A function of the number of `what` that are done, and of all. On a terminal it draws a bar,
    and the time that is left."""
    if not sys.stderr.isatty():
        yield lambda done, of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("[progress.description]{task.description}", BarColumn(), MofNCompleteColumn())
    left = TimeRemainingColumn()
    # It draws without a thread of its own, because processes are forked meanwhile.
    with Progress(
        *columns, left, "left", console=Console(stderr=True), transient=True, auto_refresh=False
    ) as bar:
        task, drawn_s = bar.add_task(what, visible=False), 0.0

        def draw(done: int, of: int) -> None:
            nonlocal drawn_s
            now_s = time.monotonic()
            if now_s - drawn_s >= _DRAW_S or done == of:
                drawn_s = now_s
                bar.update(task, completed=done, total=of, visible=of > 1, refresh=True)

        yield draw
