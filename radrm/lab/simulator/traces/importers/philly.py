"""Microsoft's Philly trace, as Pollux publishes it or shortened: times, durations and GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from radrm.lab.simulator.traces.importers.aids import Aids, moment
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.table import read_table
from radrm.lab.simulator.traces.trace import MAX_SECONDS, Trace, arranged, number, whole

SUBMIT = ("submit_s", "timestamp", "submit_time", "submitted_time")
DURATION = ("duration_s", "duration")
GPUS = ("gpus", "num_gpus", "num_gpu")


def philly(lines: Iterable[str], source: str, aids: Aids) -> Trace:
    """Read the trace. `aids.fill` gives memory and SM activity, which it lacks."""
    table = read_table(lines, source)
    submit, duration, gpus = table.need([SUBMIT, DURATION, GPUS])
    user, model = table.at("user", "vc", "cluster"), table.at("name", "job_name", "model_name")
    places = count()

    def made(line: int, cells: list[str]) -> TraceJob | None:
        ran_s = number(cells[duration], "duration", -MAX_SECONDS, MAX_SECONDS)
        held = whole(cells[gpus], "number of GPUs", 0, 10**6)
        if ran_s <= 0 or held == 0:
            return None
        kind = aids.fill.draw(next(places))
        return TraceJob(
            submit_s=moment(cells[submit]),
            name=cells[model].strip()[:200] if model is not None else f"job-{line}",
            gpus=held,
            duration_s=ran_s,
            memory_mib=kind.memory_mib,
            smact=kind.smact,
            user=cells[user].strip()[:200] or "user" if user is not None else "user",
            batch_size=kind.batch_size,
            family=kind.family,
            line=line,
        )

    found = table.each(made)
    jobs = [job for job in found if job is not None]
    notes = [aids.fill.note(len(jobs), len(jobs))]
    if never := len(found) - len(jobs):
        notes.append(f"{never} jobs that never ran or had no GPU are left out")
    return Trace(arranged(jobs, source, sort_quietly=True).jobs, tuple(notes))
