"""Horus: a formula over the figures of a model summary."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Estimate
from radrm.core.settings import fixed
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.core.words import Quantity
from radrm.estimators.interface import Description
from radrm.estimators.summaries.layers import ModelSummary
from radrm.estimators.summaries.read import read_summary
from radrm.estimators.summaries.text import BadSummary

# The layers whose outputs count as activations: those that RAD-RM's published figures count,
# and similar ones. Pooling (except the adaptive kind), containers (their output is their last
# layer's), Identity and Flatten do not count there.
# fmt: off
ACTIVE_KINDS = frozenset({
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
    "Linear", "Bilinear", "Embedding", "LSTM", "GRU", "RNN", "MultiheadAttention",
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm", "GroupNorm", "RMSNorm",
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
    "ReLU", "ReLU6", "LeakyReLU", "PReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish",
    "Hardswish", "Tanh", "Softplus",
    "Dropout", "Dropout1d", "Dropout2d", "Dropout3d",
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d",
})
# fmt: on

_ACTIVE_IN_SMALL_LETTERS = frozenset(kind.casefold() for kind in ACTIVE_KINDS)
_BYTES = 4
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Horus:
    """Mem = (B * A + P) + (B * G) + d, as in RAD-RM's thesis, section 5.3.1.

    B is the batch size, A the activations of one sample, P the parameters, G the gradients
    (as many as parameters), 4 bytes each; d is `overhead_mib`. That G counts once per
    sample, and d = 800 MiB, follow from the figures published with the prototype's CNN
    jobs: the formula is within 0.01 % of most and 0.8 % of all. Original: Yeung et al.,
    "Horus", IEEE TPDS 33(1), 2022.

    A prototype job file's own Horus line comes first. The upper bound equals the value: the
    formula has no error figure, and margins are the policy's. There is no estimate without a
    batch size or a complete summary with shapes (printed transformers have none), nor for a
    model without layers that count.
    """

    overhead_mib: int = fixed(800)
    """The start-up overhead d of Horus's formula, with the CUDA context."""
    name: str = "horus"

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        memory_mib = job.published.get("horus")
        if memory_mib is None:
            memory_mib = self._from_summary(job)
        if memory_mib is None:
            return ()
        of_summary = job.batch_size is None and self.name not in job.published
        guesses = ("batch size: the model summary's own",) if of_summary else ()
        return (Estimate(Quantity.MEMORY, memory_mib, memory_mib, self.name, guesses=guesses),)

    def _from_summary(self, job: Description) -> float | None:
        if job.summary is None:
            return None
        try:
            summary = read_summary(job.summary, job.batch_size)
        except BadSummary:
            return None
        batch_size, activations = summary.batch_size, activations_of(summary)
        if batch_size is None or not activations or not summary.complete:
            return None
        forward = batch_size * activations + summary.parameters
        backward = batch_size * summary.parameters
        memory_mib = (forward + backward) * _BYTES / _MIB + self.overhead_mib
        return min(memory_mib, float(WHOLE_DEVICE_MIB))


def activations_of(summary: ModelSummary) -> int:
    """Return the elements that the layers keep for the backward pass, for one sample."""
    kinds = _ACTIVE_IN_SMALL_LETTERS
    return sum(layer.elements for layer in summary.layers if layer.kind.casefold() in kinds)
