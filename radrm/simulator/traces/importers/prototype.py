"""The published prototype's submission script, and the job files that it names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from radrm.errors import BadFile, RadrmError
from radrm.simulator.traces.importers.aids import Aids
from radrm.simulator.traces.importers.kinds import family_of, guesses, usual_smact
from radrm.simulator.traces.importers.profiles import Alone
from radrm.simulator.traces.job import TraceJob
from radrm.simulator.traces.table import LineErrors, shown
from radrm.simulator.traces.trace import Trace, arranged

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
