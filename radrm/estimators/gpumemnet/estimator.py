"""GPUMemNet: small networks choose a bucket of memory from the features of a model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from radrm.core.records import Estimate
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.core.words import Quantity
from radrm.estimators.gpumemnet.ensemble import Ensemble
from radrm.estimators.gpumemnet.features import GROWING, Family, Features, features_of
from radrm.estimators.interface import Description
from radrm.estimators.summaries.read import read_summary
from radrm.estimators.summaries.text import BadSummary

WEIGHTS = Path(__file__).with_name("weights")
"""The trained networks, two files for each family (`Ensemble.read`)."""


@dataclass(frozen=True, slots=True)
class GPUMemNet:
    """RAD-RM's thesis, chapter 5: an ensemble for MLPs, one for CNNs, one for transformers.

    Value and upper bound are the upper edge of the most likely bucket, in MiB. Buckets are
    1 GB wide for MLPs and 8 GB for the others (8000, 16000 and so on, as in the figures
    published with the prototype's jobs). The last bucket means a whole device. The weights
    are radrm's own: docs/lab/gpumemnet.md describes their training data and accuracy.

    A prototype job file's own GPUMemNet line comes first. There is no estimate without a
    batch size or a summary with the features (`features_of`). There is none for a model with
    more parameters, or more activations in a batch, than any in the training data.
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
    """Return the upper edge of the most likely bucket. None: beyond the training data."""
    ensemble, vector = _ensemble(features.family), features.vector()
    if ensemble.is_beyond(vector, GROWING):
        return None
    edges = (*map(float, ensemble.edges_mib), float(WHOLE_DEVICE_MIB))
    return edges[ensemble.bucket(vector)]


@lru_cache(maxsize=len(Family))
def _ensemble(family: Family) -> Ensemble:
    """Read a family's networks once, at its first job: that takes some milliseconds."""
    return Ensemble.read(WEIGHTS, family.value)
