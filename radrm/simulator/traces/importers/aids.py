"""The inputs of importers other than the lines of a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from radrm.errors import BadFile
from radrm.jobfile.radfile import JobFile
from radrm.simulator.traces.fill import Fill
from radrm.simulator.traces.importers.profiles import Alone


def _no_files(name: str) -> JobFile:
    raise BadFile(f"{name}: there is no folder to read it from")


def _nothing(name: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Aids:
    """The inputs of importers other than the lines.

    `job_file` reads the job file of a name; it raises `RadrmError` if it cannot. `beside` opens
    a file of this name beside the trace; None: there is none.
    """

    profile: Mapping[str, Alone] = field(default_factory=dict)
    fill: Fill = field(default_factory=Fill)
    job_file: Callable[[str], JobFile] = _no_files
    beside: Callable[[str], Iterable[str] | None] = _nothing
