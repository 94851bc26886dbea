"""What tracing the real training step told (route A)."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Estimate
from radrm.core.rules import Description
from radrm.core.words import Quantity
from radrm.estimators.overheads import CUDNN_MIB, context_mib
from radrm.estimators.traced import Traced

FURTHEST_SCALING = 4.0
"""A trace made for another batch size speaks for up to so many times more or fewer."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What PyTorch's allocator would reserve in a training step, and the CUDA context.

    The job's own trace comes first, else one at the end of its summary. Value and upper bound
    are one: margins are learned from past errors, or the policy's. No trace, or one for another
    number of GPUs, optimizer or precision than the job's, or a batch size too far from it:
    no estimate. For another batch size nearby, what is not weights, gradients or
    optimizer is scaled with it.
    """

    context_mib: float = 0.0
    """What a process takes on this machine before its first tensor; 0: as on that kind of GPU."""
    name: str = "trace"

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        traced = trace_of(job)
        if traced is None:
            return ()
        tensors_mib = for_batch(traced, job.batch_size)
        if tensors_mib is None:
            return ()
        context = self.context_mib or context_mib(job.device_kind)
        memory_mib = tensors_mib + context
        told = Estimate(
            quantity=Quantity.MEMORY,
            value=memory_mib,
            upper=memory_mib,
            source=self.name,
            guesses=_guesses(traced, job),
            # Convolutions load cuDNN's kernels on top of a bare context.
            context_mib=context
            - (CUDNN_MIB if traced.workspace_mib and context > CUDNN_MIB else 0),
            cuda=None if traced.cuda == "unknown" else traced.cuda,
        )
        return (told,)


def _guesses(traced: Traced, job: Description) -> tuple[str, ...]:
    """Those of the trace that the job does not settle itself, and what the trace is scaled by."""
    said = {
        "batch size": job.batch_size,
        "sequence length": job.sequence_length,
        "input shape": job.input_shape,
        "optimizer": job.optimizer,
        "precision": job.precision,
    }
    settled = {what for what, value in said.items() if value is not None}
    lines = [line for line in traced.guesses if line.partition(":")[0] not in settled]
    if job.batch_size and traced.batch_size and job.batch_size != traced.batch_size:
        lines.append(f"batch size: scaled to {job.batch_size} from a trace at {traced.batch_size}")
    return tuple(lines)


def trace_of(job: Description) -> Traced | None:
    """The trace that speaks for this job; None where none does."""
    for text in (job.trace, job.summary):
        traced = Traced.from_text(text) if text else None
        if traced is not None and _speaks_for(traced, job):
            return traced
    return None


def _speaks_for(traced: Traced, job: Description) -> bool:
    gpus = job.spec.roles[0].needs.gpus
    if gpus and gpus != traced.gpus:
        return False
    told = ((job.optimizer, traced.optimizer), (job.precision, traced.precision))
    return all(asked is None or asked.lower() == made.lower() for asked, made in told)


def for_batch(traced: Traced, batch_size: int | None) -> float | None:
    """MiB reserved at this batch size; None where the trace is for one too far away."""
    if batch_size is None or traced.batch_size is None or batch_size == traced.batch_size:
        return traced.reserved_mib
    times = batch_size / traced.batch_size
    if not 1 / FURTHEST_SCALING <= times <= FURTHEST_SCALING:
        return None
    growing = max(traced.reserved_mib - traced.static_mib, 0.0)
    return traced.static_mib + growing * times
