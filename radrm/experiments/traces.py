"""Read traces, profiles and tables of typical jobs from the files that users name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TextIO

from radrm.errors import BadFile, plain
from radrm.host.storage.submission import load
from radrm.jobfile.radfile import JobFile, read_job_file
from radrm.simulator.traces.fill import Fill, read_fill
from radrm.simulator.traces.importers.aids import Aids
from radrm.simulator.traces.importers.forms import read_any
from radrm.simulator.traces.importers.profiles import (
    Alone,
    joined,
    read_profile,
    read_throughputs,
)
from radrm.simulator.traces.job import TraceJob
from radrm.simulator.traces.make import Kind, read_kinds
from radrm.simulator.traces.trace import Trace, trace_lines

_LONGEST_JSON = 64 << 20
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
        beside=_beside(path),
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
    if path.endswith(".json"):
        return read_throughputs(_text(path), _called(path))
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


def _beside(path: str) -> Callable[[str], Iterable[str] | None]:
    """A function that opens other tables in the folder of a trace."""

    def open_table(name: str) -> Iterable[str] | None:
        other = os.path.join(os.path.dirname(path), name)
        return _lines_of(other) if path != "-" and os.path.exists(other) else None

    return open_table


def _lines_of(path: str) -> Iterator[str]:
    with _lines(path) as lines:
        yield from lines


def _text(path: str) -> str:
    pieces, length = [], 0
    for piece in _lines_of(path):
        pieces.append(piece)
        length += len(piece)
        if length > _LONGEST_JSON:
            raise BadFile(f"{_called(path)}: longer than {_LONGEST_JSON >> 20} MiB")
    return "".join(pieces)


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
