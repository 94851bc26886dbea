"""The two traces of the RAD-RM thesis: CSV with `exclusive_duration_s` and `memory_mb`."""

from __future__ import annotations

from collections.abc import Iterable

from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.simulator.traces.importers.aids import Aids
from radrm.simulator.traces.importers.kinds import family_of, guesses, usual_smact
from radrm.simulator.traces.importers.profiles import START_UP_S, Alone
from radrm.simulator.traces.job import TraceJob
from radrm.simulator.traces.table import read_table
from radrm.simulator.traces.trace import (
    MAX_GPUS,
    MAX_MIB,
    MAX_SECONDS,
    Trace,
    arranged,
    number,
    whole,
)

_WHOLE_DEVICE_MIB = 40000.0
_ESTIMATES = {
    "horus": "horus_mb",
    "faketensor": "faketensor_mb",
    "gpumemnet": "gpumemnet_mb",
}


def published(lines: Iterable[str], source: str, aids: Aids) -> Trace:
    """Read the trace. `aids.profile` gives SM activity and steady memory, which it lacks."""
    table = read_table(lines, source)
    wanted = ("submit_s", "job_name", "model", "dataset", "batch_size", "num_gpus", "memory_mb")
    submit, name, model, dataset, batch, gpus, memory = table.need([[w] for w in wanted])
    # Two kinds of jobs ran fewer epochs than their names say; the first column accounts for it.
    (duration,) = table.need([["exclusive_duration_cmd_s", "exclusive_duration_s"]])
    columns = {n: at for n, c in _ESTIMATES.items() if (at := table.at(c)) is not None}
    jobs, guessed = [], []
    for line, cells in table.rows:
        try:
            called = cells[name].strip()
            alone = aids.profile.get(called, Alone())
            family = family_of(cells[model], cells[dataset])
            smact = alone.smact
            if smact is None:
                smact = usual_smact(cells[model], family)
                guessed.append(called)
            jobs.append(
                TraceJob(
                    submit_s=number(cells[submit], "submit_s", 0, MAX_SECONDS),
                    name=called,
                    gpus=whole(cells[gpus], "num_gpus", 1, MAX_GPUS),
                    duration_s=START_UP_S
                    + number(cells[duration], "duration", 0, MAX_SECONDS, above=True),
                    memory_mib=number(cells[memory], "memory_mb", 0, MAX_MIB, above=True),
                    smact=smact,
                    estimates={
                        n: whole_device(number(cells[at], f"{n}_mb", 0, MAX_MIB))
                        for n, at in columns.items()
                        if cells[at].strip()
                    },
                    batch_size=whole(cells[batch], "batch_size", 1, 10**9),
                    family=family,
                    steady_mib=alone.steady_within(number(cells[memory], "memory_mb", 0, MAX_MIB)),
                    line=line,
                )
            )
        except ValueError as error:
            table.errors.add(line, str(error))
    table.errors.raise_any()
    found = arranged(jobs, source, sort_quietly=True)
    return Trace(found.jobs, guesses(guessed))


def whole_device(mib: float) -> float:
    """Return a published estimate. 40000 (failed, or too large) becomes a whole device."""
    return float(WHOLE_DEVICE_MIB) if mib >= _WHOLE_DEVICE_MIB else mib
