"""Load data in this process, and end an epoch once its steps have been seen.

Workers would be processes without the tracer, and pinned memory needs a GPU. After enough steps
the loader in use ends its epoch, so that the script goes on to its evaluation, which can need
more memory than training. A loader that evaluates then gives three batches.

Where batches differ in size (sentences, point clouds), three are not enough. So the loader looks
through those that follow. A larger one is given for one more step.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Mapping
from typing import Any

import torch
from program import spent_s
from torch.utils.data import DataLoader

EVALUATED = 3
"""Batches of an evaluation after the steps."""
SLOW_S = 3.0
"""A training batch that takes so much processor time is used again for the further steps."""
SEARCH_S, GLANCE_S, SEARCHED = 3.0, 0.3, 2000
"""How long a larger batch is looked for where the first differ, and where not; among how many."""
_DEEPEST, _MOST_PARTS = 4, 10_000


class Data:
    """All loaders of the program."""

    def __init__(self, script: Any) -> None:
        self._script = script
        self._latest: Any = None
        self._sought = self.over = False

    def begin(self) -> None:
        tensor: Any = torch.Tensor
        loader: Any = DataLoader
        tensor.pin_memory = lambda self, *_, **__: self
        tensor.is_pinned = lambda self, *_, **__: False
        make, iterate = loader.__init__, loader.__iter__
        known = inspect.signature(make).parameters
        here = {name: value for name, value in _HERE.items() if name in known}
        data = self

        def made(this: Any, *args: Any, **kwargs: Any) -> None:
            bound = inspect.signature(make).bind(this, *args, **kwargs).arguments
            extra = bound.pop("kwargs", {})
            bound.pop("self", None)
            make(this, **{**bound, **extra, **here})

        def iterated(this: Any) -> Any:
            return Batches(data, iterate(this))

        loader.__init__, loader.__iter__ = made, iterated

    @property
    def passes(self) -> int:
        return int(self._script.steps.backward)

    def took(self, batches: Batches) -> None:
        self._latest = weakref.ref(batches)

    def _training(self) -> Batches | None:
        latest = self._latest() if self._latest is not None else None
        return latest if latest is not None and latest.trains else None

    def seek_larger(self) -> bool:
        """Let a larger batch be the next one, if there is one. It is looked for once."""
        latest = self._training()
        if self._sought or latest is None:
            return False
        self._sought = True
        number = latest.look()
        if number:
            self._script.guesses.append(
                f"batches: they differ in size; the largest of {number} was used"
            )
        return number > 0

    def end_epoch(self) -> bool:
        """End the epoch of the loader that trains. False: no loader does."""
        if self._training() is None:
            return False
        self.over = True
        return True

    def repeated(self) -> None:
        self._script.skip("data loading")


_HERE = {
    "num_workers": 0, "pin_memory": False, "persistent_workers": False, "prefetch_factor": None,
    "timeout": 0, "multiprocessing_context": None, "pin_memory_device": "",
}  # fmt: skip


class Batches:
    """The iterator of one epoch."""

    def __init__(self, data: Data, real: Any) -> None:
        self._data, self._real = data, real
        self._taken, self._passes = 0, data.passes
        self._kept: Any = None
        self._sizes: set[int] = set()

    @property
    def trains(self) -> bool:
        """Return whether there was a backward pass since the first batch."""
        return self._taken > 0 and self._data.passes > self._passes

    def __iter__(self) -> Batches:
        return self

    def __len__(self) -> int:
        return len(self._real)

    def __next__(self) -> Any:
        if self._data.over and (self.trains or self._taken >= EVALUATED):
            raise StopIteration
        self._data.took(self)
        if self._kept is not None:
            batch = self._kept
        else:
            started = spent_s()
            batch = next(self._real)
            if self.trains and spent_s() - started > SLOW_S:
                self._kept = batch
                self._data.repeated()
            self._sizes.add(_size(batch))
        self._taken += 1
        return batch

    def look(self) -> int:
        """Keep the largest of the batches that follow, if it is larger than those before it.
        Return the number of those seen; 0: none is larger."""
        if self._kept is not None:  # they take long
            return 0
        until = spent_s() + (SEARCH_S if len(self._sizes) > 1 else GLANCE_S)
        most, number, best = max(self._sizes), self._taken, None
        while number < SEARCHED and spent_s() < until:
            try:
                batch = next(self._real)
            except StopIteration:
                break
            number += 1
            if _size(batch) > most:
                best, most = batch, _size(batch)
        self._kept = best
        return 0 if best is None else number

    next = __next__

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _size(value: Any, depth: int = 0) -> int:
    """Return the elements of all tensors in a batch."""
    if isinstance(value, torch.Tensor):
        return value.numel()
    if depth < _DEEPEST:
        if not isinstance(value, (Mapping, list, tuple)):
            value = getattr(value, "__dict__", ())
        parts = list(value.values()) if isinstance(value, Mapping) else value
        return sum(_size(part, depth + 1) for part in parts[:_MOST_PARTS])
    return 0
