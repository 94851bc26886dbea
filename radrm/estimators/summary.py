"""The training step of a model's summary, replayed without a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Estimate
from radrm.core.settings import fixed
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.core.words import Quantity
from radrm.estimators.families import Family
from radrm.estimators.interface import Description
from radrm.estimators.memory import CUDNN_MIB, Overheads, overheads
from radrm.estimators.summaries.layers import Form, Layer, ModelSummary
from radrm.estimators.summaries.read import read_summary
from radrm.estimators.summaries.text import BadSummary
from radrm.estimators.symbolic import tables, trees
from radrm.estimators.symbolic.operations import (
    Network,
    Precision,
    Role,
    optimizer,
    precision,
    role_of,
)
from radrm.estimators.symbolic.replay import replay
from radrm.jobfile.values import shown

# The memory of a process without tensors on an A100. Fitted on half of the measured MLPs, and on
# the published CNN jobs (docs/summaries.md).
CONTEXT_MIB = 1429.0

UNOPENED = 0.05
"""There is no estimate if modules without rows of their own hold more of the parameters."""

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Summary:
    """The need of two training steps on one device, from the text of the model summary alone.

    It covers parameters, gradients, optimizer state, activations that the layers keep,
    workspaces, fragments of the caching allocator, and the CUDA context. The batch size is
    the job's, else the summary's. The upper bound equals the value: margins are the policy's.

    Raises `BadSummary`, for the user, if the summary is incomplete, or without batch size or
    shapes. A transformer printed as modules needs a sequence length, and a tree that is cut off
    hides shapes. An unknown optimizer or precision is an error, too.
    """

    context_mib: float = fixed(CONTEXT_MIB)
    """The memory of a process on an A100 before its first tensor."""
    cudnn_mib: float = fixed(CUDNN_MIB)
    """The memory that cuDNN's kernels add once a convolution has loaded them."""
    name: str = "summary"

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        if job.summary is None:
            return ()
        summary = read_summary(job.summary, job.batch_size)
        memory_mib = min(self._memory_mib(summary, job), float(WHOLE_DEVICE_MIB))
        estimate = Estimate(
            quantity=Quantity.MEMORY,
            value=memory_mib,
            upper=memory_mib,
            source=self.name,
            guesses=_guesses(summary, job),
            context_mib=self._context_mib(overheads(job.device_kind)),
            kernels_mib=self._kernels_mib(summary),
            family=_family(summary).known,
        )
        return (estimate,)

    def _kernels_mib(self, summary: ModelSummary) -> float:
        return self.cudnn_mib if any(map(_is_convolution, summary.layers)) else 0.0

    def _context_mib(self, on: Overheads) -> float:
        return self.context_mib + on.context_mib - overheads().context_mib

    def _memory_mib(self, summary: ModelSummary, job: Description) -> float:
        rule, how = optimizer(job.optimizer), precision(job.precision)
        if not summary.complete:
            cause = summary.problems[0] if summary.problems else "a part of it is missing"
            raise BadSummary(f"the model summary is incomplete: {cause}; print it again")
        if summary.batch_size is None:
            raise BadSummary("the model summary is for any batch size; add --batch-size=N")
        if rule is None or how is None:
            word = job.precision if how is None else job.optimizer
            what = "precision" if how is None else "optimizer"
            raise BadSummary(f"the {what} {shown(word or '')} is unknown; correct or remove it")
        if any(0 in shape for layer in summary.layers for shape in layer.shapes):
            raise BadSummary("a layer of the model summary has an output of size 0; correct it")
        on = overheads(job.device_kind)
        network = network_for(summary, job, how, on)
        if network is None:
            raise BadSummary(
                "the model summary has no shapes of its layers; add "
                "--sequence-length=N for a transformer, or use a summary with shapes"
            )
        beside_mib = self._context_mib(on) + self._kernels_mib(summary)
        return replay(network, rule, on).reserved / _MIB + beside_mib


def _guesses(summary: ModelSummary, job: Description) -> tuple[str, ...]:
    """Return the assumptions: values that the job does not specify, and its use of GPUs."""
    lines = []
    if job.batch_size is None:
        lines.append(f"batch size: {summary.batch_size}, from the model summary")
    if job.optimizer is None:
        lines.append("optimizer: adam, as the job names none")
    if job.precision is None:
        lines.append("precision: fp32, as the job names none")
    if summary.form is Form.REPR and job.sequence_length is None:
        tokens = trees.tokens_of(summary, job.input_shape)
        lines.append(f"sequence length: {tokens}, from the model summary")
    if job.spec.gpus > 1 and summary.layers[0].kind.casefold() == "dataparallel":
        lines.append(f"GPUs: {job.spec.gpus}, DataParallel: in the model summary")
    elif job.spec.gpus > 1:
        lines.append(
            f"GPUs: {job.spec.gpus}, one process for each (DDP): the summary shows no DataParallel"
        )
    return tuple(lines)


def _family(summary: ModelSummary) -> Family:
    """Return the kind of model. A summary does not show `cudnn.benchmark`."""
    if trees.is_transformer(summary):
        return Family.TRANSFORMER
    if any(map(_is_convolution, summary.layers)):
        return Family.CNN
    roles = {role_of(layer.kind.casefold(), layer.parameters) for layer in summary.layers}
    if Role.ATTENTION in roles:
        return Family.TRANSFORMER
    if Role.RECURRENT in roles:
        return Family.RECURRENT
    return Family.MLP if Role.LINEAR in roles else Family.OTHER


def _is_convolution(layer: Layer) -> bool:
    """Return whether a layer is a convolution. Hugging Face's `Conv1D` is a matrix product."""
    kind = layer.kind.casefold()
    return role_of(kind, layer.parameters) is Role.CONVOLUTION and (
        kind != "conv1d" or bool(layer.shapes)
    )


def _unopened(summary: ModelSummary) -> int:
    """Return the parameters of modules whose content the table does not show."""
    return sum(
        layer.parameters
        for layer in summary.layers
        if layer.leaf and role_of(layer.kind, layer.parameters) in (Role.OTHER, Role.VIEW)
    )


def network_for(
    summary: ModelSummary, job: Description, how: Precision, on: Overheads
) -> Network | None:
    """Return the forward pass on one GPU; with DataParallel, on the one that gathers."""
    batch, gpus = summary.batch_size or 1, max(job.spec.gpus, 1)
    gathers = summary.layers[0].kind.casefold() == "dataparallel"
    share = -(-batch // gpus) if gathers else batch
    network: Network | None
    if summary.form is not Form.REPR:
        if _unopened(summary) > UNOPENED * summary.parameters:
            return None
        network = tables.network_of(summary, share, how, on)
    else:
        tokens = job.sequence_length or trees.tokens_of(summary, job.input_shape)
        if tokens is None or not trees.is_transformer(summary):
            return None
        network = trees.network_of(summary, share, tokens, how, gpus if gathers else 1)
    if network is not None:
        network.reduced = gpus > 1
    return network
