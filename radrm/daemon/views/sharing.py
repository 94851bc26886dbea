"""What sharing costs on the GPUs here, in words and as JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from radrm.core.records import LearnedLoss
from radrm.daemon.views.documents import Document
from radrm.interference.model import Demand, speeds

_TYPICAL = 0.6
"""The text names the speed of two jobs that each have this SM activity alone."""


def learned_documents(
    found: Iterable[LearnedLoss], kinds: Collection[str] | None = None
) -> list[Document]:
    """Return a document for each kind of GPU and mode of which something was learned.

    `kinds`: of these GPUs only.
    """
    return [_document(each) for each in found if kinds is None or each.kind in kinds]


def _document(found: LearnedLoss) -> Document:
    mode = "MPS" if found.mps else "time-sliced"
    pair = [Demand(_TYPICAL), Demand(_TYPICAL)]
    keeps, shipped = (speeds(pair, mps=found.mps, loss=loss)[0] for loss in (found.loss, None))
    periods = f"{found.periods} shared period{'s' if found.periods != 1 else ''}"
    return {
        "name": found.kind,
        "mps": found.mps,
        "loss": round(found.loss, 3),
        "periods": found.periods,
        "keeps": round(keeps, 3),
        "shipped": round(shipped, 3),
        "text": f"sharing on {found.kind}, {mode}: two jobs of SM activity {_TYPICAL:.2f} keep "
        f"{keeps:.2f} of their speed (shipped model: {shipped:.2f}), from {periods} here",
    }
