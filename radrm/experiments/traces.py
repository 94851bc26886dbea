"""Read traces, profiles and tables of typical jobs from the files that users name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TextIO

from radrm.errors import BadFile, plain
from radrm.host.storage.submission import load
from radrm.jobfile.radfile import JobFile, read_job_file
from radrm.simulator.traces.draw import Fill, Kind, read_fill, read_kinds
from radrm.simulator.traces.importers.aids import Aids, Alone, joined, read_profile
from radrm.simulator.traces.importers.forms import read_any
from radrm.simulator.traces.job import TraceJob
from radrm.simulator.traces.trace import Trace, trace_lines

_PIECE = 1 << 17
"""A longer line is read in pieces, each of which is too long for a trace and is refused."""


def load_trace(
    path: str,
    form: str = "auto",
    profiles: tuple[str, ...] = (),
    fill: str | None = None,
    fill_seed: int = 0,
) -> Trace:
    """The trace in a file, `-` for standard input. Raises `RadrmError`."""
    aids = Aids(
        profile=joined(_profile(each) for each in profiles),
        fill=_fill(fill, fill_seed),
        job_file=_job_files(os.path.dirname(path)),
    )
    with _lines(path) as lines:
        return read_any(lines, _called(path), form, aids)


def load_kinds(path: str) -> tuple[Kind, ...]:
    """The table of kinds of jobs in a file. Raises `BadFile`."""
    with _lines(path) as lines:
        return read_kinds(lines, _called(path))


def save_trace(path: str, jobs: tuple[TraceJob, ...]) -> None:
    """Write jobs as radrm's own CSV. Raises `BadFile`."""
    try:
        with open(path, "w", newline="", encoding="utf-8", errors="replace") as file:
            file.writelines(trace_lines(jobs))
    except OSError as error:
        raise BadFile(f"cannot write {path}: {error.strerror}") from None


def _profile(path: str) -> dict[str, Alone]:
    with _lines(path) as lines:
        return read_profile(lines, _called(path))


def _fill(path: str | None, seed: int) -> Fill:
    if path is None:
        return Fill(seed=seed)
    with _lines(path) as lines:
        return read_fill(lines, _called(path), seed)


def _job_files(folder: str) -> Callable[[str], JobFile]:
    """A function that reads the job files that a script names, in its folder or below."""

    @cache
    def read(name: str) -> JobFile:
        beside = os.path.join(folder, os.path.basename(name))
        path = beside if os.path.exists(beside) else os.path.join(folder, name)
        return read_job_file(load(path), path, {})

    return read


def _called(path: str) -> str:
    return "standard input" if path == "-" else plain(os.path.basename(path) or path)


@contextmanager
def _lines(path: str) -> Iterator[Iterator[str]]:
    try:
        if path == "-":
            yield _pieces(sys.stdin)
            return
        with open(path, newline="", encoding="utf-8", errors="replace") as file:
            yield _pieces(file)
    except OSError as error:
        raise BadFile(f"cannot read {path}: {error.strerror}") from None


def _pieces(file: TextIO) -> Iterator[str]:
    while line := file.readline(_PIECE):
        yield line
