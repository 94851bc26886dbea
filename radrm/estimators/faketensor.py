"""PyTorch's FakeTensor, used as RAD-RM used it."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Estimate
from radrm.core.rules import Description
from radrm.core.words import Quantity
from radrm.estimators.trace import trace_of
from radrm.jobfile.radfile import WHOLE_DEVICE_MIB


@dataclass(frozen=True, slots=True)
class FakeTensor:
    """The most that activations and gradients take in one forward and backward pass.

    RAD-RM thesis, section 5.3.2. A prototype job file's own FakeTensor line is taken
    first (40000 there means a whole device), else what the job's trace gives. Weights, the
    optimizer's state, the allocator and the CUDA context are not in it: all published
    figures lie below the measurements. How the figures came about is read off those
    published: from the trace they are met within 0.1 % (docs/tracing.md). Only for the very batch
    size of the trace: anything else is no FakeTensor figure.
    """

    name: str = "faketensor"

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        memory_mib = job.published.get("faketensor")
        if memory_mib is None:
            memory_mib = _of_trace(job)
        if memory_mib is None:
            return ()
        memory_mib = min(memory_mib, float(WHOLE_DEVICE_MIB))
        return (Estimate(Quantity.MEMORY, memory_mib, memory_mib, self.name),)


def _of_trace(job: Description) -> float | None:
    traced = trace_of(job)
    if traced is None or not traced.faketensor_mib:
        return None
    if job.batch_size is not None and job.batch_size != traced.batch_size:
        return None
    return traced.faketensor_mib
