"""Defects of `radrun`'s shard server."""

from __future__ import annotations

from tools.defects.mutant import Mutant

_BOOK = "../radrun/shards/book.py"
_BOUNDARY = "../radrun/shards/boundary.py"

MUTANTS = (
    Mutant(
        "a half-read shard returns as a whole",
        _BOOK,
        "data.doing[worker] = _without(data.doing.get(worker, []), ranges)",
        "_without(data.doing.get(worker, []), ranges)",
    ),
    Mutant(
        "what a dead worker held is dropped",
        _BOOK,
        "data.deal.give_back(data.doing.pop(worker, []))",
        "data.doing.pop(worker, [])",
    ),
    Mutant(
        "a checkpoint forgets the rounds of its generation",
        _BOOK,
        "consumed = merged([*data.base, *data.read.get(writer, [])])",
        "consumed = data.base",
    ),
    Mutant(
        "each worker of a generation counts its failure",
        _BOOK,
        "self._blamed = True",
        "self._blamed = False",
    ),
    Mutant(
        "a shard held in advance is to blame",
        _BOOK,
        "first, last = held[0]",
        "first, last = held[-1]",
    ),
    Mutant(
        "workers wait for one that waits for them",
        _BOUNDARY,
        "step if worker in self.waiting else step + 1 for",
        "step for",
    ),
)
