"""How findings name GPUs: one line for a cause, however many GPUs it concerns."""

from __future__ import annotations

from collections.abc import Iterable

from radrm.core.units import gpus_named


def by_cause(found: Iterable[tuple[int, str, str]]) -> list[str]:
    """Return `GPU 0-7: cause` for each cause, in the order in which they come.

    Each is a GPU's index, the profile of its MIG instance ("" for a whole GPU), and the cause.
    """
    indices: dict[tuple[str, str], list[int]] = {}
    for index, profile, cause in found:
        indices.setdefault((profile, cause), []).append(index)
    return [
        f"{gpus_named(its)}{profile and ' '}{profile}: {cause}"
        for (profile, cause), its in indices.items()
    ]
