"""The forms of the RAD-RM thesis: its two traces, and the prototype's submission script."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.errors import BadFile, RadrmError, plain
from radrm.lab.simulator.traces.importers.aids import START_UP_S, Aids, Alone
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.table import LineErrors, read_table, shown
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


# ------------------------------------------------------------------
# The two traces of the RAD-RM thesis: CSV with `exclusive_duration_s` and `memory_mb`.


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


# ------------------------------------------------------------------
# The published prototype's submission script, and the job files that it names.


_SLEEP = re.compile(r"sleep\s+(\d{1,9}(?:\.\d{1,6})?)([smhd]?)")
_SUBMIT = re.compile(r"(?:\S+\s+)?\S*submit\.py\s+(?:--task[\s=]+)?(\S+\.rad)")
_UNIT_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def prototype(lines: Iterable[str], source: str, aids: Aids) -> Trace:
    """Read lines of `sleep SECONDS` and `python .../submit.py --task PATH.rad`."""
    errors = LineErrors(source)
    now_s = 0.0
    jobs, guessed = [], []
    for line, text in _commands(lines, source):
        if slept := _SLEEP.fullmatch(text):
            now_s += float(slept[1]) * _UNIT_S[slept[2]]
        elif submitted := _SUBMIT.fullmatch(text):
            try:
                job, guess = _submitted(submitted[1], now_s, line, aids)
            except (ValueError, RadrmError) as error:
                errors.add(line, str(error))
                continue
            jobs.append(job)
            guessed += [job.name] if guess else []
        else:
            if source.endswith(".rad"):
                raise BadFile(
                    f"{source} is a job file, not a trace; submit it: radrm submit {source}"
                )
            errors.add(line, f"{shown(text)} is neither `sleep N` nor `submit.py --task FILE`")
    errors.raise_any()
    return Trace(arranged(jobs, source).jobs, guesses(guessed))


def _commands(lines: Iterable[str], source: str) -> Iterator[tuple[int, str]]:
    for line, text in enumerate(lines, 1):
        if len(text) > 4096:
            raise BadFile(f"{source} line {line}: longer than 4096 characters")
        text = text.strip().removesuffix("&").rstrip()
        if text and not text.startswith("#"):
            yield line, text


def _submitted(path: str, now_s: float, line: int, aids: Aids) -> tuple[TraceJob, bool]:
    """Return the job of one line, and whether its SM activity is a guess."""
    name = path.rpartition("/")[2].removesuffix(".rad")
    job_file = aids.job_file(path)
    alone = aids.profile.get(name, Alone())
    duration_s = alone.duration_s or job_file.options.duration_s
    if duration_s is None:
        raise ValueError(
            f"the duration of {shown(name)} is unknown; add --profile=TABLE with "
            "the columns name,duration_s"
        )
    memory_mib = job_file.measured or job_file.options.gpu_memory_mib
    if memory_mib is None:
        raise ValueError(f"{shown(path)} has no measured memory; add --gpu-memory to it")
    model = f"{name} {job_file.options.model_summary or ''}"
    family = family_of(model, job_file.dataset or "")
    smact = alone.smact if alone.smact is not None else job_file.options.smact
    figures = {
        "horus": job_file.horus,
        "faketensor": job_file.faketensor,
        "gpumemnet": job_file.gpumemnet,
    }
    job = TraceJob(
        submit_s=now_s,
        name=name,
        gpus=max(1, job_file.options.gpus or 1),
        duration_s=duration_s,
        memory_mib=float(memory_mib),
        smact=usual_smact(model, family) if smact is None else smact,
        estimates={n: mib for n, mib in figures.items() if mib is not None},
        batch_size=job_file.options.batch_size,
        family=family,
        steady_mib=alone.steady_within(float(memory_mib)),
        line=line,
    )
    return job, smact is None
