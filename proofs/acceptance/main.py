"""Run the steps of a part, one line each, and write the report.

    python -m proofs.acceptance [--part N] [--only NAME ...] [--out FOLDER]
    python -m proofs.acceptance --report FOLDER ...

Without --part all parts run, one after the other. The second form joins the results of folders
that were brought back from several machines. Exit code 1: a step has failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proofs.acceptance import children, report
from proofs.acceptance.step import REHEARSAL
from radrm.host.processes.tree import become_subreaper

REPOSITORY = Path(__file__).parents[2]
USUAL_PATHS = ("/usr/local/nvidia/bin", "/usr/local/cuda/bin")
_CLEAN_S = 30.0
"""So long the GPU's memory may take to be given back."""
_SLACK_MIB = 64

Say = Callable[[str], None]


def main(argv: list[str] | None = None) -> int:
    options = _options(argv)
    if options.report:
        print(report.write([Path(each) for each in options.report], Path(options.out)))
        return 0
    out = Path(options.out).absolute()
    for name in ("logs", "results", "raw"):
        (out / name).mkdir(parents=True, exist_ok=True)
    environment = _environment()
    if not become_subreaper():
        print("this kernel lets no process collect orphans", file=sys.stderr)
        return 2
    try:
        from proofs.acceptance.plan import PLAN
    except ModuleNotFoundError as error:
        print(f"{error}; docs/lab/acceptance.md says how to bring it", file=sys.stderr)
        return 2
    failed = 0
    for part in [options.part] if options.part else sorted({each.part for each in PLAN}):
        chosen = [
            each
            for each in PLAN
            if each.part == part and (not options.only or each.name in options.only)
        ]
        if chosen:
            failed += run_part(part, chosen, out, environment)
    print(f"report: {report.write([out], out)}", flush=True)
    return 1 if failed else 0


def run_part(
    part: int,
    steps: list[Any],
    out: Path,
    environment: dict[str, str],
    limit_s: float | None = None,
    say: Say | None = None,
) -> int:
    """Run these steps; how many have failed. A part that is over its time runs no more of them."""
    from proofs.acceptance.plan import PART_LIMIT_S

    say = say or _say
    end = time.monotonic() + (PART_LIMIT_S if limit_s is None else limit_s)
    before = gpu_state(environment)
    failed = 0
    for step in steps:
        left_s = end - time.monotonic()
        if left_s < 1:
            result = _result(out, step.name, False, "not run: the part's time is over", 0.0)
        else:
            result = _run_step(step, out, environment, min(step.limit_s, left_s))
        failed += not result["passes"]
        say(_line(result))
    clean = _clean(f"clean-{part}", before, out, environment)
    say(_line(clean))
    return failed + (not clean["passes"])


def _run_step(step: Any, out: Path, environment: dict[str, str], limit_s: float) -> dict[str, Any]:
    file = out / "results" / f"{step.name}.json"
    file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "proofs.acceptance.plan", step.name, str(out)]
    ended = children.run(command, limit_s, out / "logs" / f"{step.name}.log", environment)
    result = json.loads(file.read_text()) if file.exists() else {}
    passes, line = bool(result.get("passes")), result.get("line", "it wrote no result; see its log")
    if ended.code is None:
        passes, line = False, f"it took more than {limit_s:.0f} s"
    elif ended.left:
        names = ", ".join(map(str, ended.left[:3]))
        passes, line = False, f"it left {len(ended.left)} processes: {names}; {line}"
    found = _result(out, step.name, passes, line, ended.seconds, result.get("facts"))
    if passes and not result.get("here", True):
        found = {**found, "here": False}
        file.write_text(json.dumps(found, indent=1))
    return found


def _clean(
    name: str, before: dict[str, str] | None, out: Path, environment: dict[str, str]
) -> dict[str, Any]:
    """Whether no process is left, and the GPU is as it was found."""
    began = time.monotonic()
    left = children.settled()
    children.end_all(children.GRACE_S)
    wrong = [f"{each} was left" for each in left]
    while (changed := _changed(before, gpu_state(environment))) is not None:
        if before is None or time.monotonic() - began > _CLEAN_S:
            wrong.append(changed)
            break
        time.sleep(0.5)
    line = "; ".join(wrong) or "no process is left; compute mode, MIG and memory are as found"
    return _result(out, name, not wrong, line, time.monotonic() - began)


def gpu_state(environment: dict[str, str]) -> dict[str, str] | None:
    """Compute mode, MIG mode and memory in use of each GPU; None where nvidia-smi fails."""
    query = "--query-gpu=uuid,compute_mode,mig.mode.current,memory.used"
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    rows = [line.partition(",") for line in done.stdout.splitlines()]
    return {uuid.strip(): rest.strip() for uuid, _, rest in rows}


def _changed(before: dict[str, str] | None, now: dict[str, str] | None) -> str | None:
    """What differs; None if nothing does."""
    if before is None or now is None:
        return "nvidia-smi does not say how the GPUs are"
    for uuid, was in before.items():
        *modes, used = was.rsplit(",", 1)
        *modes_now, used_now = now.get(uuid, "gone,").rsplit(",", 1)
        if modes != modes_now:
            return f"{uuid} was {was}, and is {now.get(uuid)}"
        if _mib(used_now) > _mib(used) + _SLACK_MIB:
            return f"{uuid} had {used.strip()} MiB in use, and has {used_now.strip()}"
    return None


def _mib(cell: str) -> int:
    return int(cell) if cell.strip().isdecimal() else 0


def _result(
    out: Path, name: str, passes: bool, line: str, seconds: float, facts: Any = None
) -> dict[str, Any]:
    one_line = " ".join(line.split())
    found = {"name": name, "passes": passes, "line": one_line, "seconds": round(seconds, 1)}
    found["facts"] = facts or {}
    if REHEARSAL in os.environ:
        found["rehearsal"] = True
    (out / "results" / f"{name}.json").write_text(json.dumps(found, indent=1))
    return found


def _line(result: dict[str, Any]) -> str:
    word = report.word_of(result)
    return f"{result['name']:<16} {word:<6} {result['seconds']:5.0f} s  {result['line'][:150]}"


def _say(line: str) -> None:
    print(line, flush=True)


def _environment() -> dict[str, str]:
    paths = [str(REPOSITORY), os.environ.get("PYTHONPATH")]
    kept = {k: v for k, v in os.environ.items() if k not in ("RADRM_HOME", "RADRM_CONFIG")}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONUNBUFFERED": "1",
        "PATH": os.pathsep.join([os.environ.get("PATH", os.defpath), *USUAL_PATHS]),
    }


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The acceptance run on a GPU.")
    add = parser.add_argument
    add("--part", type=int, choices=range(1, 7))
    add("--only", nargs="+", metavar="NAME", default=[], help="these steps of the part")
    add("--out", default=os.environ.get("OUT") or "gpu-accept", metavar="FOLDER")
    add("--report", nargs="+", metavar="FOLDER", help="only join the results of these folders")
    return parser.parse_args(argv)
