"""How findings name GPUs: one line for a cause, however many GPUs it concerns."""

from __future__ import annotations

from collections.abc import Iterable


def gpus_named(indices: Iterable[int]) -> str:
    """Return `GPU 0-3, 5` for these indices."""
    spans: list[list[int]] = []
    for index in sorted(set(indices)):
        if spans and spans[-1][-1] == index - 1:
            spans[-1].append(index)
        else:
            spans.append([index])
    words = [
        f"{span[0]}-{span[-1]}" if len(span) > 2 else ", ".join(map(str, span)) for span in spans
    ]
    return f"GPU {', '.join(words)}"


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
