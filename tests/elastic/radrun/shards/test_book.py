"""Each sample of each epoch exactly once along the lineage of checkpoints, whatever happens."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.elastic.radrun.shards.book import MOST_FAILURES, Book, BookError, Ranges, Terms, Worker
from tests.examples import some

NAME = "train"


@dataclass
class Model:
    """What the model was trained on, and what each checkpoint of it holds."""

    terms: Terms
    batch: int
    book: Book = field(default_factory=Book)
    trained: Counter[int] = field(default_factory=Counter)
    checkpoints: list[tuple[dict[str, Any] | None, Counter[int]]] = field(default_factory=list)
    held: dict[Worker, Ranges] = field(default_factory=dict)
    """What each asynchronous worker has leased and not trained on, oldest first."""

    def __post_init__(self) -> None:
        self.checkpoints.append((None, Counter()))

    def train(self, ranges: Ranges) -> None:
        self.trained.update(i for first, last in ranges for i in range(first, last))

    def restore(self, which: int, way: str) -> None:
        """A generation begins from a checkpoint; those after it are not of its lineage."""
        del self.checkpoints[which % len(self.checkpoints) + 1 :]
        state, trained = self.checkpoints[-1]
        self.trained, self.held = Counter(trained), {}
        self.book.begin(state)
        self.book.open(NAME, self.terms, way, self.batch)

    def commit(self, writer: Worker) -> None:
        self.checkpoints.append((self.book.state(writer), Counter(self.trained)))

    def assert_each_once(self) -> None:
        assert self.trained == Counter(range(self.terms.samples * self.terms.epochs))


terms = st.builds(
    Terms,
    samples=st.integers(1, 40),
    shard=st.integers(1, 15),
    epochs=st.integers(1, 3),
    seed=st.just(1),
)
number = st.integers(0, 3)
asynchronous = st.one_of(
    st.tuples(st.just("take"), number),
    st.tuples(st.just("train"), number, st.integers(1, 9)),
    st.tuples(st.just("die"), number),
    st.tuples(st.just("commit"), number),
    st.tuples(st.just("restore"), number),
)


@settings(max_examples=some(300), deadline=None)
@given(terms, st.lists(asynchronous, max_size=60))
def test_shards(terms: Terms, steps: list[tuple[Any, ...]]) -> None:
    model = Model(terms, 8)
    model.restore(0, "shards")

    def train(worker: Worker, most: int) -> None:
        """One batch: as many as `most` samples of the oldest lease, so leases are half read."""
        held = model.held.get(worker, [])
        if held:
            first, last = held.pop(0)
            end = min(last, first + most)
            if end < last:
                held.insert(0, [end, last])
            model.train([[first, end]])
            model.book.consume(worker, NAME, [[first, end]])

    for what, which, *more in steps:
        worker = ("worker", which)
        if what == "take":
            model.held.setdefault(worker, []).extend(model.book.take_shard(worker, NAME))
        elif what == "train":
            train(worker, more[0])
        elif what == "die":
            model.book.lose(worker, failed=True)
            model.held.pop(worker, None)
        elif what == "commit":
            model.commit(worker)
        else:
            model.restore(which, "shards")
    for worker in [("worker", 0), ("worker", 1)]:
        model.book.lose(worker, failed=False)
        model.held.pop(worker, None)
    for _ in range(terms.samples * terms.epochs):  # more than it needs
        for which in range(4):
            worker = ("worker", which)
            model.held.setdefault(worker, []).extend(model.book.take_shard(worker, NAME))
            while model.held[worker]:
                train(worker, 7)
        if model.book.over(NAME):
            break
    assert model.book.over(NAME)
    model.assert_each_once()


synchronous = st.one_of(
    st.tuples(st.just("round"), number),
    st.tuples(st.just("commit"), number),
    st.tuples(st.just("restore"), number, st.integers(1, 5)),
)


@settings(max_examples=some(300), deadline=None)
@given(terms, st.integers(1, 50), st.lists(synchronous, max_size=40))
def test_rounds(terms: Terms, batch: int, steps: list[tuple[Any, ...]]) -> None:
    """`round`: all ranks train on one, and some have asked for more in advance."""
    model = Model(terms, batch)
    ranks, done = [("main", 0)], 0
    model.restore(0, "rounds")
    order: list[Ranges] = []

    def round_() -> bool:
        nonlocal done
        parts = [model.book.take_round(rank, ranks, NAME, done) for rank in ranks]
        if parts[0] is None:
            assert not any(parts)
            return False
        done += 1
        for rank, part in zip(ranks, parts, strict=True):
            assert part.round == parts[0].round
            model.train(part.slice)
            model.book.consume(rank, NAME, part.round)
        order.append(parts[0].round)
        sizes = [sum(last - first for first, last in p.slice) for p in parts if p is not None]
        assert max(sizes) - min(sizes) <= 1 and sum(sizes) == parts[0].samples <= batch
        return True

    for what, which, *more in steps:
        if what == "round":
            ahead = done + which  # prefetched, and dropped by a restore
            if round_() and which and done <= ahead:
                model.book.take_round(ranks[0], ranks, NAME, done)
        elif what == "commit":
            model.commit(ranks[which % len(ranks)])
        else:
            ranks, done = [("main", i) for i in range(more[0])], 0
            model.restore(which, "rounds")
    while round_():
        pass
    model.assert_each_once()


def opened(way: str = "shards", **changed: int) -> Book:
    book = Book()
    book.begin(None)
    book.open(
        NAME, Terms(**{"samples": 100, "shard": 10, "epochs": 2, "seed": 1, **changed}), way, 25
    )
    return book


def test_the_order_of_rounds_does_not_depend_on_the_ranks() -> None:
    found = []
    for world in (1, 3):
        book, ranks = opened("rounds"), [("main", i) for i in range(world)]
        parts = [book.take_round(ranks[0], ranks, NAME, i) for i in range(8)]
        found.append([part.round for part in parts if part is not None])
    assert found[0] == found[1]


def test_a_half_read_shard_is_split() -> None:
    book = opened()
    assert book.take_shard(("w", 0), NAME) == [[0, 10]]
    assert book.take_shard(("w", 1), NAME) == [[10, 20]]
    book.consume(("w", 0), NAME, [[0, 4]])
    book.lose(("w", 0), failed=True)
    assert book.take_shard(("w", 2), NAME) == [[4, 10]]
    assert book.take_shard(("w", 2), NAME) == [[20, 30]]


def test_a_shard_that_fails_three_times_ends_the_job_and_is_named() -> None:
    book = opened()
    assert book.take_shard(("w", 9), NAME) == [[0, 10]]
    reasons = []
    for i in range(MOST_FAILURES):
        assert book.take_shard(("w", i), NAME)[0][0] == 10
        book.take_shard(("w", i), NAME)  # held in advance: not to blame
        reasons.append(book.lose(("w", i), failed=True))
    assert reasons[:2] == [None, None]
    assert str(reasons[2]).startswith("shard 1 of train (samples 10..19 of epoch 0) failed 3 times")
    assert "indices(10, 20)" in str(reasons[2])


def test_a_round_that_fails_three_times_over_restarts_ends_the_job() -> None:
    book, ranks = opened("rounds"), [("main", 0), ("main", 1)]
    reasons = []
    for _ in range(MOST_FAILURES):
        for rank in ranks:
            for i in range(3):
                book.take_round(rank, ranks, NAME, i)
            book.consume(rank, NAME, [[0, 25]])
        reasons += [book.lose(rank, failed=True) for rank in ranks]  # both die of one failure
        book.begin(None)
        book.open(NAME, Terms(100, 10, 2, 1), "rounds", 25)
    assert reasons[:4] == [None] * 4
    assert str(reasons[4]).startswith("round 1 of train (samples 25..49 of epoch 0) failed 3 times")


def test_the_earliest_round_is_to_blame_whichever_end_is_heard_of_first() -> None:
    book, ranks = opened("rounds"), [("main", 0), ("main", 1)]
    book.take_round(ranks[0], ranks, NAME, 0)
    book.take_round(ranks[1], ranks, NAME, 0)
    book.consume(ranks[0], NAME, [[0, 25]])  # it has read what the other died of
    for rank in ranks:
        assert book.lose(rank, failed=True) is None
    assert book.failures == {(NAME, 0): 1}


def test_failures_are_kept_in_checkpoints_until_their_samples_are() -> None:
    book = opened()
    book.take_shard(("w", 0), NAME)
    book.lose(("w", 0), failed=True)
    state = book.state(("w", 0))
    assert state["failures"] == [[NAME, 0, 1]]
    other = Book()
    other.begin(state)
    other.open(NAME, Terms(100, 10, 2, 1), "shards", 25)
    assert other.failures == book.failures
    other.consume(("w", 1), NAME, other.take_shard(("w", 1), NAME))
    assert other.state(("w", 1))["failures"] == []


def test_workers_that_radrun_ends_have_not_failed() -> None:
    book = opened()
    for _ in range(5):
        book.take_shard(("w", 0), NAME)
        assert book.lose(("w", 0), failed=False) is None
    assert not book.failures


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"samples": 120},
            "dataset 'train' has samples=120 here and samples=100 in another worker",
        ),
        ({"seed": 2}, "dataset 'train' has seed=2 here and seed=1 in another worker"),
    ],
)
def test_one_name_with_two_sizes_is_refused(changed: dict[str, int], words: str) -> None:
    book = opened()
    terms = Terms(**{"samples": 100, "shard": 10, "epochs": 2, "seed": 1, **changed})
    with pytest.raises(BookError, match=words):
        book.open(NAME, terms, "shards", 25)
    state = book.state(("w", 0))
    book.begin(state)
    with pytest.raises(BookError, match=words.replace("another worker", "the checkpoint")):
        book.open(NAME, terms, "shards", 25)


def test_more_epochs_and_other_batches_go_on_where_the_checkpoint_was() -> None:
    book = opened()
    book.consume(("w", 0), NAME, book.take_shard(("w", 0), NAME))
    book.begin(book.state(("w", 0)))
    book.open(NAME, Terms(100, 30, 5, 1), "rounds", 50)
    assert book.take_round(("w", 0), [("w", 0)], NAME, 0).round == [[10, 60]]


def test_a_worker_cannot_consume_what_it_did_not_take() -> None:
    book = opened()
    book.take_shard(("w", 0), NAME)
    for ranges in ([[5, 15]], [[20, 30]]):
        with pytest.raises(BookError, match="did not take"):
            book.consume(("w", 0), NAME, ranges)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "9", 1 << 60])
def test_senseless_terms_are_refused(wrong: Any) -> None:
    with pytest.raises(BookError):
        Terms(wrong, 10, 1, 1)
