"""Many inputs for one target. Each finding is saved with a command that repeats it.

    NAME-HASH.input     the input, as bytes; words of a command line as a JSON list
    NAME-HASH.txt       what is wrong, and the command that repeats it

Several inputs that show the same defect are one finding: the smallest is kept.
"""

from __future__ import annotations

import hashlib
import json
import logging
import resource
import time
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from proofs.fuzz.judging import Finding, Target, hangs_end, judge
from proofs.fuzz.mutations import as_bytes

MOST_FINDINGS = 20
"""Kinds of findings of one target after which it is stopped."""


@dataclass
class Result:
    """What came of one target. `grown_mib`: how much memory it added to the process's peak."""

    target: str
    inputs: int = 0
    accepted: int = 0
    seconds: float = 0.0
    grown_mib: float = 0.0
    findings: dict[str, Finding] = field(default_factory=dict)


def run(
    target: Target, count: int, seed: str, until_s: float = float("inf"), most: int | None = None
) -> Result:
    """Try `count` inputs, fewer if the monotonic clock reaches `until_s`. `most`: characters."""
    result, before = Result(target.name), _peak_mib()
    began_s = time.monotonic()
    logging.disable(logging.CRITICAL)
    try:
        with hangs_end() as begin:
            for given in islice(target.inputs(seed, most), count):
                begin()
                result.inputs += 1
                found = judge(target, given)
                if isinstance(found, Finding):
                    _keep(result, found)
                else:
                    result.accepted += found
                if len(result.findings) >= MOST_FINDINGS or time.monotonic() > until_s:
                    break
    finally:
        logging.disable(logging.NOTSET)
    result.seconds = time.monotonic() - began_s
    result.grown_mib = _peak_mib() - before
    return result


def try_one(target: Target, given: Any) -> Finding | None:
    """Return what is wrong with how a target takes this input; None if nothing is."""
    with hangs_end() as begin:
        begin()
        found = judge(target, given)
        return found if isinstance(found, Finding) else None


def _keep(result: Result, found: Finding) -> None:
    known = result.findings.get(found.kind)
    if known is None or len(repr(found.given)) < len(repr(known.given)):
        result.findings[found.kind] = found


def save(found: Finding, folder: Path) -> Path:
    """Save a finding; return the file of its input."""
    given = found.given
    if isinstance(given, list):
        data = json.dumps(given).encode()
    else:
        data = as_bytes(given) if isinstance(given, str) else given
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{found.target}-{hashlib.sha256(found.kind.encode()).hexdigest()[:8]}"
    path = folder / f"{name}.input"
    path.write_bytes(data)
    command = f"python -m proofs.fuzz --target {found.target} --repeat {path}"
    path.with_suffix(".txt").write_text(
        f"{found.target}: {found.kind}\n{found.what}\n{command}\n", errors="backslashreplace"
    )
    return path


def load(target: Target, path: Path) -> Any:
    """Return a saved input as `call` takes it."""
    data = path.read_bytes()
    if isinstance(target.examples[0], tuple):
        return json.loads(data)
    return data if target.bytes else data.decode("utf-8", "surrogateescape")


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
