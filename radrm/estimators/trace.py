"""The traced training step, through PyTorch's caching allocator."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Estimate
from radrm.core.settings import fixed
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.core.words import Quantity
from radrm.estimators.families import Family
from radrm.estimators.interface import Description
from radrm.estimators.memory import (
    CUDNN_MIB,
    MEASURED_MAPS,
    MEASURED_SPREAD,
    TRIED,
    context_mib,
)
from radrm.estimators.traces import Traced
from radrm.structs import replace

TRIAL_SPREAD = 1.03
"""The trials that were measured took up to 3% more than their plan."""
FURTHEST_SCALING = 4.0
"""A trace counts for batch sizes up to this many times larger or smaller."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The memory that PyTorch's allocator reserves in a training step, plus the CUDA context.

    The job's own trace comes first, then one at the end of its summary. The upper bound
    equals the value: margins come from past errors, or from the policy. There is no estimate
    without a trace for the job's number of GPUs, optimizer and precision, and a similar batch
    size. For another batch size all but weights, gradients and optimizer is scaled.
    """

    context_mib: float = fixed(0.0)
    """The memory of a process on this machine before its first tensor; 0: the figure for the kind
    of GPU."""
    name: str = "trace"

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        traced = trace_of(job)
        if traced is None:
            return ()
        tensors_mib = for_batch(traced, job.batch_size)
        if tensors_mib is None:
            return ()
        estimate = of_trace(traced, tensors_mib, job, self.context_mib)
        return (replace(estimate, source=self.name, guesses=_guesses(traced, job)),)


def of_trace(
    traced: Traced, tensors_mib: float, job: Description, given_mib: float = 0.0
) -> Estimate:
    """Return the estimate for these tensors; `given_mib` is the context, 0: that of the kind.

    The upper bound is more with `cudnn.benchmark`: for the fastest plan's workspace, and for the
    moments in which cuDNN tries plans.
    """
    context = given_mib or context_mib(job.device_kind)
    memory_mib = tensors_mib + context
    # Convolutions load cuDNN's kernels on top of a bare context.
    kernels_mib = CUDNN_MIB if traced.workspace_mib and context > CUDNN_MIB else 0.0
    return Estimate(
        quantity=Quantity.MEMORY,
        value=memory_mib,
        upper=memory_mib if not traced.benchmark else _measured(traced, memory_mib, context),
        source="trace",
        seconds=traced.seconds,
        context_mib=context - kernels_mib,
        kernels_mib=kernels_mib,
        cuda=None if traced.cuda == "unknown" else traced.cuda,
        family=traced.family.known,
    )


def _measured(traced: Traced, memory_mib: float, context: float) -> float:
    """Return the upper bound where cuDNN measures its plans."""
    upper = memory_mib
    if traced.family is Family.BENCHMARK:
        upper = MEASURED_SPREAD * memory_mib + MEASURED_MAPS * traced.map_mib
    tried_mib = TRIAL_SPREAD * traced.trial_mib + context
    return max(upper, tried_mib) if tried_mib > TRIED * memory_mib else upper


def _guesses(traced: Traced, job: Description) -> tuple[str, ...]:
    """Return the trace's guesses that the job does not answer, and the scaling."""
    specified = {
        "batch size": job.batch_size,
        "sequence length": job.sequence_length,
        "input shape": job.input_shape,
        "optimizer": job.optimizer,
        "precision": job.precision,
    }
    known = {subject for subject, value in specified.items() if value is not None}
    lines = [line for line in traced.guesses if line.partition(":")[0] not in known]
    if job.batch_size and traced.batch_size and job.batch_size != traced.batch_size:
        lines.append(f"batch size: scaled to {job.batch_size} from a trace at {traced.batch_size}")
    return tuple(lines)


def trace_of(job: Description) -> Traced | None:
    """Return the trace that fits this job. None: there is none."""
    for text in (job.trace, job.summary):
        traced = Traced.from_text(text) if text else None
        if traced is not None and traced.script is None and _fits(traced, job):
            return traced
    return None


def _fits(traced: Traced, job: Description) -> bool:
    gpus = job.spec.roles[0].needs.gpus
    if gpus and gpus != traced.gpus:
        return False
    pairs = ((job.optimizer, traced.optimizer), (job.precision, traced.precision))
    return all(asked is None or asked.lower() == made.lower() for asked, made in pairs)


def for_batch(traced: Traced, batch_size: int | None) -> float | None:
    """Return the MiB reserved at this batch size. None: the trace's is too different."""
    if batch_size is None or traced.batch_size is None or batch_size == traced.batch_size:
        return traced.reserved_mib
    times = batch_size / traced.batch_size
    if not 1 / FURTHEST_SCALING <= times <= FURTHEST_SCALING:
        return None
    growing = max(traced.reserved_mib - traced.static_mib, 0.0)
    return traced.static_mib + growing * times


# ------------------------------------------------------------------
# PyTorch's FakeTensor, as RAD-RM used it.


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
