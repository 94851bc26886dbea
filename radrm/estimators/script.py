"""The job's own command, traced for a few training steps, through PyTorch's caching allocator."""

from __future__ import annotations

import re
from dataclasses import dataclass

from radrm.core.records import Estimate
from radrm.core.settings import fixed
from radrm.estimators.interface import Description
from radrm.estimators.trace import of_trace
from radrm.estimators.traces import Script as Told
from radrm.estimators.traces import Traced
from radrm.structs import replace


@dataclass(frozen=True, slots=True)
class Script:
    """The memory that PyTorch's allocator reserves in the first steps of the job's own program,
    plus the CUDA context.

    The program ran as it is, with its own arguments, so its batch size, optimizer and precision
    are those of the job. There is no estimate from a trace of a factory, or for another number of
    GPUs. The upper bound equals the value: margins come from past errors, or from the policy.
    """

    context_mib: float = fixed(0.0)
    """The memory of a process on this machine before its first tensor; 0: the figure for the kind
    of GPU."""
    name: str = "script"

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        traced = Traced.from_text(job.trace) if job.trace else None
        if traced is None or traced.script is None:
            return ()
        gpus = job.spec.roles[0].needs.gpus
        if gpus and gpus != traced.gpus:
            return ()
        found = of_trace(traced, traced.reserved_mib, job, self.context_mib)
        basis = sentence(traced.script, traced.seconds)
        return (replace(found, source=self.name, guesses=traced.guesses, basis=basis),)


def sentence(told: Told, seconds: float) -> str:
    """Return what was traced and what was left out, in one sentence."""
    count = max(told.steps, default=0)
    what = f"{count} step{'' if count == 1 else 's'} of {told.program}"
    if not count:
        what = f"{told.reason} of {told.program}"
    took = f"{what} traced in {max(1, round(seconds))} s"
    if not told.skipped:
        return took
    several = len(told.skipped) > 1 or told.skipped[0].endswith("s")
    return f"{took}; {_list(told.skipped)} {'were' if several else 'was'} skipped"


def _list(words: tuple[str, ...]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


_NO_NETWORK = re.compile(
    r"URLError|urlopen|HTTPSConnection|HTTPConnection|ConnectionError|MaxRetry|offline mode|"
    r"Name or service not known|Temporary failure in name|huggingface\.co|LocalEntryNotFound",
    re.IGNORECASE,
)
_ASKS_DRIVER = re.compile(r"nvidia-smi|NVMLError")
_NO_MODULE = re.compile(r"ModuleNotFoundError|No module named|cannot import torch")
_NO_FILE = re.compile(r"FileNotFoundError|No such file")


def step_after(cause: str) -> str:
    """Return the one thing that a user can do if the command could not be traced, and why."""
    if _ASKS_DRIVER.search(cause):
        return "a trace has no GPU to ask: add --gpu-memory=SIZE"
    if _NO_NETWORK.search(cause):
        return "download it before the job: a trace has no network"
    if _NO_MODULE.search(cause):
        return "activate the job's environment before you submit, or in the job file"
    if _NO_FILE.search(cause):
        return "submit it from the folder in which it runs, or give --chdir"
    return "add --gpu-memory=SIZE"
