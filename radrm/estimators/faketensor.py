"""PyTorch's FakeTensor, as RAD-RM used it."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Estimate
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.core.words import Quantity
from radrm.estimators.interface import Description
from radrm.estimators.trace import trace_of


@dataclass(frozen=True, slots=True)
class FakeTensor:
    """The peak of activations and gradients in one forward and backward pass.

    RAD-RM thesis, section 5.3.2. A prototype job file's own FakeTensor line comes first
    (40000 there means a whole device), then the figure of the job's trace. Weights, optimizer
    state, allocator and CUDA context are not part of it, so all published figures are below
    the measurements. The rules follow from the published figures, which the trace meets
    within 0.1 % (docs/tracing.md). It answers only for the batch size of the trace.
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
