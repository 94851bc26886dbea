"""GPUMemNet: small networks look at a model's figures and name a bucket of memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from radrm.core.records import Estimate
from radrm.core.rules import Description
from radrm.core.words import Quantity
from radrm.estimators.gpumemnet_ensemble import Ensemble
from radrm.estimators.gpumemnet_features import GROWING, Family, Features, features_of
from radrm.estimators.summaries.read import read_summary
from radrm.estimators.summaries.text import BadSummary
from radrm.jobfile.radfile import WHOLE_DEVICE_MIB

WEIGHTS = Path(__file__).with_name("weights")
"""The trained networks, two files a family: `Ensemble.read`."""


@dataclass(frozen=True, slots=True)
class GPUMemNet:
    """RAD-RM's thesis, chapter 5: an ensemble for MLPs, one for CNNs, one for transformers.

    Value and upper bound are the upper edge of the likeliest bucket, in MiB: 1 GB wide for
    MLPs, 8 GB for the others (8000, 16000 and so on, as in the figures published with the
    prototype's jobs). Above the last edge it is a whole device. The weights are radrm's
    own: docs/gpumemnet.md says what they were trained on and how often they are right.

    A prototype job file's own GPUMemNet line is taken first. No estimate without a batch
    size, without a summary that tells the features (`features_of` says when), and for a
    model with more parameters, or more activations in a batch, than any trained on.
    """

    name: str = "gpumemnet"

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        memory_mib = job.published.get("gpumemnet")
        if memory_mib is None:
            memory_mib = _from_summary(job)
        if memory_mib is None:
            return ()
        of_summary = job.batch_size is None and self.name not in job.published
        guesses = ("batch size: the model summary's own",) if of_summary else ()
        return (Estimate(Quantity.MEMORY, memory_mib, memory_mib, self.name, guesses=guesses),)


def _from_summary(job: Description) -> float | None:
    if job.summary is None:
        return None
    try:
        summary = read_summary(job.summary, job.batch_size)
    except BadSummary:
        return None
    batch_size = summary.batch_size
    if batch_size is None:
        return None
    if summary.layers[0].kind == "DataParallel":
        batch_size = -(-batch_size // max(job.spec.roles[0].needs.gpus, 1))
    features = features_of(summary, batch_size, job.sequence_length)
    return bucket_edge_mib(features) if features is not None else None


def bucket_edge_mib(features: Features) -> float | None:
    """The upper edge of the likeliest bucket; None beyond the range that was trained on."""
    ensemble, vector = _ensemble(features.family), features.vector()
    if ensemble.is_beyond(vector, GROWING):
        return None
    edges = (*map(float, ensemble.edges_mib), float(WHOLE_DEVICE_MIB))
    return edges[ensemble.bucket(vector)]


@lru_cache(maxsize=len(Family))
def _ensemble(family: Family) -> Ensemble:
    """Read when the first job of the family comes: that takes some milliseconds."""
    return Ensemble.read(WEIGHTS, family.value)
