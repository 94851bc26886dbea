"""`radrm progress`: report a job's progress from its own script."""

from __future__ import annotations

import os

from radrm.cli.parameters import TEXT, Parameter
from radrm.errors import UsageError

_NAMES = {
    "step": "The steps that are done.",
    "total": "All steps of the job.",
    "epoch": "The epoch.",
    "loss": "What the job minimises.",
    "work_done": "The fraction of all its work that is done, 0 to 1.",
    "saved": "The step whose state is saved now, on the disk.",
}
PARAMETERS = tuple(
    Parameter(name, TEXT, about, "NUMBER", (f"--{name.replace('_', '-')}",))
    for name, about in _NAMES.items()
)


def progress(step: str, total: str, epoch: str, loss: str, work_done: str, saved: str) -> int:
    """Report a job's progress, from its own script.

    It returns at once, also while no daemon runs: then the report is lost, but `--saved` is kept
    in the job's checkpoint folder.

    \b
    Examples:
      radrm progress --step 120 --total 1000 --loss 0.31
      radrm progress --saved 120
    """
    texts = (("step", step), ("total", total), ("epoch", epoch), ("loss", loss))
    given = {name: _number(name, text) for name, text in texts if text}
    if work_done:
        given["work_done"] = _number("work_done", work_done)
        if given["work_done"] > 1:
            raise UsageError(f"--work-done {work_done} is not from 0 to 1")
    saved_step = _number("saved", saved) if saved else None
    if not given and saved_step is None:
        raise UsageError("nothing to report; write: radrm progress --step 120 --total 1000")
    if given.get("step", 0.0) > given.get("total", float("inf")):
        raise UsageError(f"--step {step} is more than --total {total}")
    if "RADRM_PROGRESS" not in os.environ:
        raise UsageError("this is no job of radrm; call it from a script that `radrm submit` runs")
    from radrm.report import Reporter

    report = Reporter()
    report.progress(**given)
    if saved_step is not None:
        report.saved(saved_step, total=given.get("total"), loss=given.get("loss"))
    return 0


def _number(name: str, text: str) -> float:
    option = f"--{name.replace('_', '-')}"
    try:
        number = float(text)
    except ValueError:
        raise UsageError(f"{option} {text!r} is not a number") from None
    if number - number != 0:
        raise UsageError(f"{option} {text} is not a finite number")
    if number < 0 and name != "loss":
        raise UsageError(f"{option} {text} is less than 0")
    return number
