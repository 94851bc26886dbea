"""Run the training, stop it after its saves and start it again, each time in a new process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median, stdev
from tempfile import TemporaryDirectory
from textwrap import fill

from benchmarks import markdown
from tests.paths import REPOSITORY

MODELS = ("mlp", "cnn", "lstm", "transformer")
POINTS = (0.3, 0.7)
"""The fractions of the work after which a job is stopped."""
STEPS = 50
PUBLISHED_S = 5.0
_PATIENCE_S = 300.0


@dataclass
class Costs:
    """Seconds to save and to resume one model at one point, of all runs.

    To resume: from the start of the process until its first step is done. It contains the start of
    Python, the import of PyTorch and one step. `size` in bytes.
    """

    model: str
    point: float
    save_s: list[float] = field(default_factory=list)
    resume_s: list[float] = field(default_factory=list)
    size: int = 0

    @property
    def whole_s(self) -> list[float]:
        return [sum(pair) for pair in zip(self.save_s, self.resume_s, strict=True)]


def why_not() -> str | None:
    """Return why nothing can be measured here; None if it can."""
    return None if find_spec("torch") is not None else "PyTorch cannot be imported"


def run(folder: Path, model: str, steps: int, save_at: int) -> dict[str, float]:
    """Run one process; `start` is when it was started. Raises `RuntimeError` if it fails."""
    about = {"RADRM_JOB_ID": "1", "RADRM_CHECKPOINT_DIR": str(folder)}
    words = [sys.executable, "-m", "benchmarks.checkpoint.train", model, str(steps), str(save_at)]
    start = time.monotonic()
    done = subprocess.run(
        words,
        env={**os.environ, **about},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{model}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    return {"start": start, **json.loads(done.stdout)}


def measure(model: str, runs: int, steps: int = STEPS) -> list[Costs]:
    """Measure one model at all points.

    Raises `RuntimeError` if a resumed run does not end with the loss of an uninterrupted one, or if
    `saved.json` does not name the step that was saved.
    """
    found = [Costs(model, point) for point in POINTS]
    with TemporaryDirectory() as place:
        wanted = run(Path(place), model, steps, 0)["loss"]
    for _ in range(runs):
        with TemporaryDirectory() as place:
            before = run(Path(place), model, steps, round(POINTS[0] * steps))
            for number, costs in enumerate(found):
                proof = json.loads((Path(place) / "saved.json").read_text())
                if proof["step"] != before["step"]:
                    raise RuntimeError(f"{model}: saved.json says step {proof['step']:g}")
                costs.save_s.append(before["save_s"])
                costs.size = int(before["bytes"])
                later = POINTS[number + 1] if number + 1 < len(POINTS) else 0
                before = run(Path(place), model, steps, round(later * steps))
                costs.resume_s.append(before["first_step"] - before["start"])
            if before["loss"] != wanted:
                raise RuntimeError(f"{model}: ends with loss {before['loss']}, not {wanted}")
    return found


def starts(runs: int) -> list[float]:
    """Return the seconds that Python takes to start and import PyTorch, and nothing else."""
    found = []
    for _ in range(runs):
        at = time.monotonic()
        subprocess.run([sys.executable, "-c", "import torch"], check=True, timeout=_PATIENCE_S)
        found.append(time.monotonic() - at)
    return found


def section(found: list[Costs], runs: int, imports_s: list[float]) -> str:
    """Return the section of the page. `imports_s`: of `starts`, measured in the same hour."""
    whole = [seconds for costs in found for seconds in costs.whole_s]
    save_s, resume_s, whole_s = (
        _range([median(each) for each in of])
        for of in (
            [costs.save_s for costs in found],
            [costs.resume_s for costs in found],
            [costs.whole_s for costs in found],
        )
    )
    mib = _range([costs.size / 2**20 for costs in found])
    spread = f", s.d. {stdev(whole):.2f}" if len(whole) > 1 else ""
    load = f"load {os.getloadavg()[2]:.0f} on {len(os.sched_getaffinity(0))} CPUs"
    mark = "**" if max(whole) >= PUBLISHED_S else ""  # a miss
    text = (
        f"`python -m benchmarks.checkpoint`: four small PyTorch models ({mib} MiB saved), no GPU, "
        f"{load}, stopped at 30 and 70 %, {runs} runs each. Medians: {save_s} s to save, "
        f"{resume_s} s to start and resume (`import torch` alone: {median(imports_s):.1f} s), "
        f"together {whole_s} s; most {mark}{max(whole):.1f}{mark}{spread}. "
        "Losses end as without a stop. Published (figure 3.2): "
        f"under {PUBLISHED_S:g} s, s.d. 1.43, for one VAE; its size and disk are not given."
    )
    return "## Saving and resuming\n\n" + fill(text, 100, break_on_hyphens=False)


def _range(values: list[float]) -> str:
    digits = 2 if min(values) < 1 else 1
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def table(found: list[Costs]) -> list[str]:
    """Return all medians, by model and point."""
    rows = []
    for c in found:
        spread = f"{stdev(c.whole_s):.2f}" if len(c.whole_s) > 1 else "-"
        rows.append(
            (
                *(c.model, f"{c.point:.0%}", f"{c.size / 2**20:.1f}", f"{median(c.save_s):.3f}"),
                *(f"{median(c.resume_s):.2f}", f"{median(c.whole_s):.2f}, {spread}"),
            )
        )
    return markdown.table(("model", "at", "MiB", "save s", "resume s", "both s, s.d."), rows)
