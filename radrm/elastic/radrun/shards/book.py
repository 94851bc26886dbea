"""What of each dataset is to do, being done, consumed and committed, as ranges. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field

# ------------------------------------------------------------------
# Ranges of positions, and what is left of a dataset. A range is [first, last). Pure.


Ranges = list[list[int]]


def merged(ranges: Iterable[Sequence[int]]) -> Ranges:
    """Return the ranges [first, last) sorted; those that touch become one."""
    found: Ranges = []
    for first, last in sorted(map(list, ranges)):
        if found and first <= found[-1][1]:
            found[-1][1] = max(found[-1][1], last)
        elif first < last:
            found.append([first, last])
    return found


def cut(ranges: Ranges, first: int, last: int) -> Ranges:
    """Return the `first`th to before the `last`th position of the ranges."""
    found = []
    for start, end in ranges:
        if max(start, start + first) < min(end, start + last):
            found.append([max(start, start + first), min(end, start + last)])
        first, last = first - (end - start), last - (end - start)
    return found


class Deal:
    """The positions of a dataset that nobody has, handed out in order."""

    def __init__(self, samples: int, epochs: int, consumed: Ranges) -> None:
        self._samples = samples
        self.todo: Ranges = []
        first = 0
        for start, end in [*consumed, [samples * epochs] * 2]:
            start = min(start, samples * epochs)
            self.todo += [[first, start]] if first < start else []
            first = end

    def take(self, most: int, unit: int) -> Ranges:
        """Take up to `most` positions of one unit (`unit` positions of an epoch, or its rest)."""
        found: Ranges = []
        while self.todo and most > 0:
            first, last = self.todo[0]
            epoch, place = divmod(first, self._samples)
            ends = epoch * self._samples + min(self._samples, (place // unit + 1) * unit)
            if found and found[0][0] < first - place % unit:
                break
            found.append([first, min(last, first + most, ends)])
            most -= found[-1][1] - first
            self.todo[0] = [found[-1][1], last]
            if found[-1][1] == last:
                self.todo.pop(0)
        return found

    def give_back(self, ranges: Ranges) -> None:
        """Put back what a worker had taken."""
        self.todo = merged([*self.todo, *ranges])


# ------------------------------------------------------------------
# The state machine of all datasets: `todo -> doing -> consumed -> committed`. Pure.
#
# Theory of operation. A dataset is a line of positions (`radrm.elastic`). What a worker takes is
# *doing*; it says at each of its steps which positions that step has *consumed*. A checkpoint
# stores the consumed ranges as a state; those are *committed*. A generation of workers begins with
# the state that its checkpoint names, so positions that were consumed after it return to todo by
# themselves: `todo` is never stored, it is what the consumed ranges leave.
#
# Two ways to deal, by dataset:
#
# - **rounds** (synchronous). All ranks consume the same rounds, so the state of a checkpoint
#   follows from what the rank that writes it has consumed. A lost worker ends the generation.
# - **shards** (asynchronous). Each worker leases shards. When it is lost, what it has not consumed
#   returns; a shard that it had half read is split by that. The state is the union of all.
#
# A shard or round during which three workers (or generations) were lost ends the job: it is never
# dropped. Only what a lost worker was consuming counts, not what it held in advance.


MOST_FAILURES = 3
MOST_DATASETS = 64
MOST_ROUNDS = 100_000
"""Rounds of a dataset that were dealt to one rank and not yet to all."""
MOST_RANGES = 10_000
"""Ranges of one dataset or report: only a program that reads in no order at all has more."""
LARGEST = 1 << 53

Worker = tuple[str, int]
"""A role and a number."""
Failures = dict[tuple[str, int], int]
"""How often workers were lost, by dataset and first position of the shard or round."""


class BookError(Exception):
    """A request that cannot be done. The text is one line for the user."""


class Terms(Struct, frozen=True):
    """What a program says of a dataset."""

    samples: int
    shard: int
    epochs: int
    seed: int | None

    def __post_init__(self) -> None:
        for name in ("samples", "shard", "epochs"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise BookError(f"{name} must be a whole number from 1, not {ascii(value)[:40]}")
        if self.samples * self.epochs > LARGEST:
            raise BookError(f"samples times epochs must be at most {LARGEST}")
        if self.seed is not None and type(self.seed) is not int:
            raise BookError(f"the seed must be a whole number or None, not {ascii(self.seed)[:40]}")


class Part(Struct, frozen=True):
    """One rank's slice of a round."""

    round: Ranges
    slice: Ranges
    samples: int
    """Samples of the whole round."""
    last: bool
    """Whether nothing is left after this round."""


class _Dataset(Struct):
    terms: Terms
    deal: Deal
    base: Ranges
    """What was consumed when the generation began."""
    way: str
    batch: int
    doing: dict[Worker, Ranges] = field(default_factory=dict)
    read: dict[Worker, Ranges] = field(default_factory=dict)
    """What each worker has consumed since the generation began."""
    consumed: Ranges = field(default_factory=list)
    """`base` and what all have read (of shards)."""
    rounds: deque[Ranges] = field(default_factory=deque)
    first_round: int = 0
    """The number of the first of `rounds`."""
    asked: dict[Worker, int] = field(default_factory=dict)
    """The round that each rank asks for next."""


class Book:
    """All datasets of a job."""

    def __init__(self) -> None:
        self.failures: Failures = {}
        self._saved: dict[str, tuple[Terms, Ranges]] = {}
        self._open: dict[str, _Dataset] = {}
        self._blamed: tuple[str, int] | None = None

    def begin(self, state: dict[str, Any] | None) -> None:
        """Begin a generation at a stored state, or at the beginning. Raises BookError."""
        self._saved, self._open, self._blamed = {}, {}, None
        if state is None:
            return
        for name, each in state["datasets"].items():
            terms = Terms(each["samples"], each["shard"], each["epochs"], each["seed"])
            self._saved[name] = (terms, merged(each["consumed"]))
        for name, first, count in state.get("failures", ()):
            key = (name, first)
            self.failures[key] = max(self.failures.get(key, 0), count)

    @property
    def begun(self) -> bool:
        """Whether this generation has opened a dataset."""
        return bool(self._open)

    @property
    def saved_samples(self) -> dict[str, int]:
        """How many positions of each dataset the state has with which this generation began."""
        saved = self._saved.items()
        return {name: sum(last - first for first, last in ranges) for name, (_, ranges) in saved}

    def open(self, name: str, terms: Terms, way: str, batch: int) -> None:
        """Note a worker's dataset: the terms of all have to agree. Raises BookError."""
        found = self._open.get(name)
        if found is not None:
            if found.terms != terms:
                raise BookError(_differ(name, found.terms, terms, "in another worker"))
            if (found.way, found.batch if way == "rounds" else batch) != (way, batch):
                raise BookError(f"the workers read dataset '{name}' with different batches")
            return
        if len(self._open) >= MOST_DATASETS:
            raise BookError(f"more than {MOST_DATASETS} datasets; give fewer names")
        consumed: Ranges = []
        if name in self._saved:
            saved, consumed = self._saved[name]
            if (saved.samples, saved.seed) != (terms.samples, terms.seed):
                raise BookError(_differ(name, saved, terms, "in the checkpoint"))
        deal = Deal(terms.samples, terms.epochs, consumed)
        self._open[name] = _Dataset(terms, deal, consumed, way, batch, consumed=consumed)

    # ---------------------------------------------------------------- taking

    def take_round(
        self, worker: Worker, ranks: Sequence[Worker], name: str, number: int
    ) -> Part | None:
        """Return the worker's slice of round `number` (from 0 in each generation), or None."""
        data = self._of(name, "rounds")
        if number < data.first_round or number > data.first_round + MOST_ROUNDS:
            raise BookError(f"round {number} of '{name}' is too far from the other workers'")
        while number >= data.first_round + len(data.rounds):
            dealt = data.deal.take(data.batch, data.terms.samples)
            if not dealt:
                return None
            data.rounds.append(dealt)
        ranges = data.rounds[number - data.first_round]
        self._asked(data, worker, ranks, number)
        samples, rank, world = _size(ranges), ranks.index(worker), len(ranks)
        mine = cut(ranges, samples * rank // world, samples * (rank + 1) // world)
        last = not data.deal.todo and number + 1 >= data.first_round + len(data.rounds)
        return Part(ranges, mine, samples, last)

    @staticmethod
    def _asked(data: _Dataset, worker: Worker, ranks: Sequence[Worker], number: int) -> None:
        """Forget the rounds that every rank has got."""
        data.asked[worker] = number + 1
        done = min(data.asked.get(each, 0) for each in ranks)
        while data.first_round < done and len(data.rounds) > 1:
            data.rounds.popleft()
            data.first_round += 1

    def take_shard(self, worker: Worker, name: str) -> Ranges:
        """Lease the next shard, or what is left of it; none if nothing is todo."""
        data = self._of(name, "shards")
        found = data.deal.take(data.terms.shard, data.terms.shard)
        data.doing[worker] = data.doing.get(worker, []) + found
        return found

    def over(self, name: str | None = None) -> bool:
        """Whether every position of the dataset (of all that are read by shards) is consumed."""
        shards = [data for data in self._open.values() if data.way == "shards"]
        return all(
            not data.deal.todo and not any(data.doing.values())
            for data in ([self._of(name)] if name is not None else shards)
        ) and bool(name or shards)

    def busy(self, worker: Worker) -> bool:
        """Whether the worker holds a lease that it has not consumed."""
        return any(data.doing.get(worker) for data in self._open.values())

    # ---------------------------------------------------------------- consuming

    def consume(self, worker: Worker, name: str, ranges: Ranges) -> None:
        """Note what a worker's step has consumed. Raises BookError if it did not take that."""
        data = self._of(name)
        if data.way == "shards":
            data.doing[worker] = _without(data.doing.get(worker, []), ranges)
            data.consumed = _bounded(merged([*data.consumed, *ranges]))
        data.read[worker] = _bounded(merged([*data.read.get(worker, []), *ranges]))

    def consume_all(self, worker: Worker, name: str) -> None:
        """Note that a worker has consumed all that it took: it asks for more and holds nothing."""
        self.consume(worker, name, self._of(name).doing.get(worker, []))

    def state(self, writer: Worker) -> dict[str, Any]:
        """Return what a checkpoint holds of the datasets, if `writer` writes it now."""
        found = dict(self._saved)
        for name, data in self._open.items():
            consumed = data.consumed
            if data.way == "rounds":
                consumed = merged([*data.base, *data.read.get(writer, [])])
            found[name] = (data.terms, consumed)
        failures = [
            [name, first, count]
            for (name, first), count in self.failures.items()
            if name not in found or not _holds(found[name][1], first)
        ]
        return {
            "datasets": {
                name: {
                    "samples": terms.samples,
                    "shard": terms.shard,
                    "epochs": terms.epochs,
                    "seed": terms.seed,
                    "consumed": consumed,
                }
                for name, (terms, consumed) in found.items()
            },
            "failures": failures[:MOST_ROUNDS],
        }

    # ---------------------------------------------------------------- losing

    def lose(self, worker: Worker, failed: bool) -> str | None:
        """Take back what a worker holds. Return why the job must fail, if it must.

        `failed`: it counts as a failure of what the worker was consuming.
        """
        reason = None
        for name, data in self._open.items():
            if failed:
                reason = self._blame(worker, name, data) or reason
            if data.way == "shards":
                data.deal.give_back(data.doing.pop(worker, []))
        return reason

    def _blame(self, worker: Worker, name: str, data: _Dataset) -> str | None:
        if data.way == "shards":
            held = data.doing.get(worker)
            if not held:
                return None
            first, last = held[0]
            kind = "shard"
        else:
            read = merged([*data.base, *data.read.get(worker, [])])
            deal = Deal(data.terms.samples, data.terms.epochs, read)
            left = deal.take(data.batch, data.terms.samples)
            if worker not in data.asked or not left:
                return None
            first, last = left[0][0], left[-1][1]
            kind = "round"
        unit = data.terms.shard if kind == "shard" else data.batch
        epoch, place = divmod(first, data.terms.samples)
        key = (name, epoch * data.terms.samples + place // unit * unit)
        if kind == "round" and not self._blame_round(key):
            return None
        self.failures[key] = self.failures.get(key, 0) + 1
        if self.failures[key] < MOST_FAILURES:
            return None
        ends = place + last - first - 1
        return (
            f"{kind} {place // unit} of {name} (samples {place}..{ends} of epoch {epoch})"
            f" failed {MOST_FAILURES} times: a worker died each time; see the job's output, and"
            f" ShardedDataset.indices({first}, {last}) for the samples"
        )

    def _blame_round(self, key: tuple[str, int]) -> bool:
        """Return whether a round is to blame. The workers of a generation die of one failure: that
        of the earliest round, whichever end is heard of first."""
        before = self._blamed
        if before is not None:
            if key[0] != before[0] or key >= before:
                return False
            self.failures[before] -= 1
            if not self.failures[before]:
                del self.failures[before]
        self._blamed = key
        return True

    def _of(self, name: str, way: str | None = None) -> _Dataset:
        data = self._open.get(name)
        if data is None or (way is not None and data.way != way):
            raise BookError(f"dataset '{name}' is not open for that")
        return data


def _differ(name: str, one: Terms, other: Terms, where: str) -> str:
    for what in ("samples", "seed", "epochs", "shard"):
        before, now = getattr(one, what), getattr(other, what)
        if before != now:
            return (
                f"dataset '{name}' has {what}={now} here and {what}={before} {where};"
                " give each dataset a name of its own"
            )
    raise AssertionError("the terms agree")


def _size(ranges: Ranges) -> int:
    return sum(last - first for first, last in ranges)


def _holds(ranges: Ranges, position: int) -> bool:
    return any(first <= position < last for first, last in ranges)


def _without(held: Ranges, ranges: Iterable[Sequence[int]]) -> Ranges:
    """Return what of `held` is not in `ranges`, which must all be in it; the order stays."""
    for first, last in ranges:
        left: Ranges = []
        found = False
        for start, end in held:
            if start <= first and last <= end:
                found = True
                left += [each for each in ([start, first], [last, end]) if each[0] < each[1]]
            else:
                left.append([start, end])
        if not found:
            raise BookError(
                "a worker consumed samples that it did not take; read them only by elastic.loader()"
            )
        held = left
    return held


def _bounded(ranges: Ranges) -> Ranges:
    if len(ranges) > MOST_RANGES:
        raise BookError(f"the samples were read in more than {MOST_RANGES} pieces")
    return ranges
