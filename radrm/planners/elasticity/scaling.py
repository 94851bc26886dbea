"""The seconds of a step at each number of workers, fitted to what was measured.

    step = io + compute / n + sync * (n - 1)

`io` waits for data, `compute` divides among n workers, and `sync` is what each further worker adds
by exchanging gradients. The global batch is the same at every size, so steps per second is speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

_SMALL = 1e-9


@dataclass(frozen=True, slots=True)
class Scaling:
    """The parts of a step's time, in seconds; none is negative, and `compute_s` is above zero."""

    io_s: float
    compute_s: float
    sync_s: float

    def step_s(self, workers: int) -> float:
        """Return the seconds of a step with so many workers (1 or more)."""
        return self.io_s + self.compute_s / workers + self.sync_s * (workers - 1)

    def gain(self, workers: int, more: int) -> float:
        """Return which part of `more` workers becomes speed: 1.0 is as good as the present ones."""
        before, after = self.step_s(workers), self.step_s(workers + more)
        return (before / after - 1.0) * workers / more


def fit(step_s: Mapping[int, float], data_wait: float | None = None) -> Scaling | None:
    """Return the scaling that fits these step times, by number of workers; None without any.

    `data_wait` (0..1) is the part of a step that waited for data, at the largest of these sizes.

    One size says nothing about the exchange of gradients: it counts as free, which a second size
    corrects. With two sizes `io` is what the job says, and `sync` follows. With three or more, all
    parts are the least squares of relative errors, none below zero.
    """
    known = {n: seconds for n, seconds in step_s.items() if n >= 1 and seconds > 0}
    if not known:
        return None
    largest = max(known)
    io_s = known[largest] * min(max(data_wait or 0.0, 0.0), 0.95)
    if len(known) == 1:
        return Scaling(io_s, (known[largest] - io_s) * largest, 0.0)
    if len(known) == 2:
        left = {n: seconds - io_s for n, seconds in known.items()}
        if min(left.values()) > 0:
            found = _best(left, (("compute",), ("compute", "sync")))
            if found is not None and found[0] <= _SMALL:
                return Scaling(io_s + found[1].io_s, found[1].compute_s, found[1].sync_s)
    subsets = [
        ("compute", *others)
        for size in range(min(len(known), 3))
        for others in combinations(("io", "sync"), size)
    ]
    found = _best(known, subsets)
    return None if found is None else found[1]


def _best(
    step_s: Mapping[int, float], subsets: Iterable[Sequence[str]]
) -> tuple[float, Scaling] | None:
    """Return the least sum of squared relative errors, and its scaling, over sets of parts.

    The least squares with bounds at zero are plain ones of the parts that are above zero there.
    """
    found: tuple[float, Scaling] | None = None
    for parts in subsets:
        values = _least_squares(step_s, parts)
        if values is None or min(values) < 0 or values[parts.index("compute")] <= 0:
            continue
        named = dict(zip(parts, values, strict=True))
        scaling = Scaling(named.get("io", 0.0), named["compute"], named.get("sync", 0.0))
        error = sum((scaling.step_s(n) / s - 1.0) ** 2 for n, s in step_s.items())
        if found is None or error < found[0] - _SMALL:
            found = error, scaling
    return found


def _row(workers: int, parts: Sequence[str]) -> list[float]:
    of_part = {"io": 1.0, "compute": 1.0 / workers, "sync": float(workers - 1)}
    return [of_part[part] for part in parts]


def _least_squares(step_s: Mapping[int, float], parts: Sequence[str]) -> list[float] | None:
    """Return the parts with the least squared relative errors; None if they are not determined."""
    rows = [[cell / s for cell in _row(n, parts)] for n, s in step_s.items()]
    size = len(parts)
    matrix = [[sum(r[i] * r[j] for r in rows) for j in range(size)] for i in range(size)]
    right = [sum(r[i] for r in rows) for i in range(size)]
    for at in range(size):  # Gauss, with the largest pivot
        pivot = max(range(at, size), key=lambda i: abs(matrix[i][at]))
        if abs(matrix[pivot][at]) < 1e-12 * max(1.0, abs(matrix[0][0])):
            return None
        matrix[at], matrix[pivot] = matrix[pivot], matrix[at]
        right[at], right[pivot] = right[pivot], right[at]
        for i in range(at + 1, size):
            times = matrix[i][at] / matrix[at][at]
            right[i] -= times * right[at]
            matrix[i] = [a - times * b for a, b in zip(matrix[i], matrix[at], strict=True)]
    values = [0.0] * size
    for at in reversed(range(size)):
        rest = sum(matrix[at][j] * values[j] for j in range(at + 1, size))
        values[at] = (right[at] - rest) / matrix[at][at]
    return values
