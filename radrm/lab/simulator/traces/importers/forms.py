"""The forms of traces by name, and how their first lines differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain

from radrm.errors import UsageError
from radrm.lab.simulator.traces.importers.aids import Aids
from radrm.lab.simulator.traces.importers.philly import DURATION, GPUS, philly
from radrm.lab.simulator.traces.importers.slurm import slurm
from radrm.lab.simulator.traces.importers.thesis import published
from radrm.lab.simulator.traces.trace import Trace, read_trace


def _own(lines: Iterable[str], source: str, aids: Aids) -> Trace:
    return read_trace(lines, source)


FORMS: Mapping[str, Callable[[Iterable[str], str, Aids], Trace]] = {
    "trace": _own,
    "published": published,
    "philly": philly,
    "slurm": slurm,
}


def read_any(
    lines: Iterable[str], source: str, form: str = "auto", aids: Aids | None = None
) -> Trace:
    """Read a trace of this form; `auto` looks at the first line. Raises `RadrmError`."""
    aids = aids or Aids()
    if form == "auto":
        rest = iter(lines)
        first = next(rest, "")
        form, lines = _form_of(first), chain([first], rest)
    if form not in FORMS:
        raise UsageError(f"there is no trace form {form!r}; there are: {', '.join(FORMS)}")
    return FORMS[form](lines, source, aids)


def _form_of(first: str) -> str:
    words = {word.strip() for word in re.split(r"[,|]", first[:4096].removeprefix("\ufeff"))}
    if "JobID" in words or "JobIDRaw" in words:
        return "slurm"
    if "exclusive_duration_s" in words:
        return "published"
    if words & set(GPUS[1:]) and words & set(DURATION):
        return "philly"
    return "trace"
