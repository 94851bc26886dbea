"""The two traces of the RAD-RM thesis: CSV with `exclusive_duration_s` and `memory_mb`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.errors import plain
from radrm.lab.simulator.traces.importers.aids import START_UP_S, Aids, Alone
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.table import read_table
from radrm.lab.simulator.traces.trace import (
    MAX_GPUS,
    MAX_MIB,
    MAX_SECONDS,
    Trace,
    arranged,
    number,
    whole,
)

# ------------------------------------------------------------------
# The family of a published job's model, and its usual SM activity if no profile has it.


# By a part of the model's name; the first that matches counts. Light jobs: guesses that agree
# with the fit of `interference.model`. Others: round figures from the published exclusive run.
_SMACT = (
    ("mnist", 0.07),
    ("mobilenetv3", 0.20),
    ("resnet18", 0.30),
    ("resnet34", 0.35),
    ("efficientnet", 0.45),
    ("mobilenet", 0.35),
    ("resnet", 0.62),
    ("inception", 0.66),
    ("xception", 0.83),
    ("vgg", 0.87),
)
_SMACT_BY_FAMILY = {"transformer": 0.80, "light": 0.25, "tiny": 0.07, "vgg": 0.87, "cnn": 0.60}


def family_of(model: str, dataset: str) -> str:
    """Return the family of a published job, for its share weight in `interference.model`."""
    model, dataset = model.lower(), dataset.lower()
    if "mnist" in model or "mnist" in dataset:
        return "tiny"
    if "cifar" in dataset or "cifar" in model:
        return "light"
    if any(word in model for word in ("bert", "xlnet", "gpt", "transformer", "llama")):
        return "transformer"
    return "vgg" if "vgg" in model else "cnn"


def usual_smact(model: str, family: str) -> float:
    named = [smact for word, smact in _SMACT if word in model.lower()]
    if family == "light" and "efficientnet" in model.lower():
        return _SMACT_BY_FAMILY["light"]
    return named[0] if named and family != "transformer" else _SMACT_BY_FAMILY[family]


def guesses(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    kinds = sorted(set(names))
    shown_ = ", ".join(map(plain, kinds[:4])) + (", ..." if len(kinds) > 4 else "")
    return (
        f"no profile has the SM activity of {len(names)} jobs ({shown_}); it is guessed from "
        "their model",
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
    guessed = []

    def made(line: int, cells: list[str]) -> TraceJob:
        called = cells[name].strip()
        alone = aids.profile.get(called, Alone())
        family = family_of(cells[model], cells[dataset])
        smact = alone.smact
        if smact is None:
            smact = usual_smact(cells[model], family)
            guessed.append(called)
        return TraceJob(
            submit_s=number(cells[submit], "submit_s", 0, MAX_SECONDS),
            name=called,
            gpus=whole(cells[gpus], "num_gpus", 1, MAX_GPUS),
            duration_s=START_UP_S + number(cells[duration], "duration", 0, MAX_SECONDS, above=True),
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

    found = arranged(table.each(made), source, sort_quietly=True)
    return Trace(found.jobs, guesses(guessed))


def whole_device(mib: float) -> float:
    """Return a published estimate. 40000 (failed, or too large) becomes a whole device."""
    return float(WHOLE_DEVICE_MIB) if mib >= _WHOLE_DEVICE_MIB else mib
