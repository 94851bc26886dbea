"""Requests a second of one user: a burst is free, more wait, and too many are refused."""

from __future__ import annotations

from radrm.daemon.serving.slots import LONGEST_WAIT_S, Rates


class Bucket:
    def __init__(self, per_s: float = 2.0) -> None:
        self.now = 50.0
        self.rates = Rates(lambda uid: per_s if uid else 0.0, lambda: self.now)

    def take(self, times: int, uid: int = 7) -> list[float]:
        return [self.rates.take(uid) for _ in range(times)]


def test_a_burst_is_free_and_the_next_wait_their_turn() -> None:
    bucket = Bucket()
    assert bucket.take(20) == [0.0] * 20
    assert bucket.take(3) == [0.5, 1.0, 1.5]
    bucket.now += 1.0
    assert bucket.take(1) == [1.0]
    bucket.now += 1000.0
    assert bucket.take(21) == [0.0] * 20 + [0.5]


def test_who_would_wait_too_long_is_refused_and_loses_nothing() -> None:
    bucket = Bucket()
    bucket.take(40)
    (wait_s,) = bucket.take(1)
    assert wait_s > LONGEST_WAIT_S
    assert bucket.take(5) == [wait_s] * 5
    assert bucket.rates.refusal(7, wait_s) == (
        "you send more than 2 requests a second; nothing was done, try again in 11 s"
    )
    bucket.now += 1.0
    assert bucket.take(1) == [wait_s - 1.0 + 0.0]


def test_users_have_their_own_buckets_and_some_have_none() -> None:
    bucket = Bucket()
    bucket.take(40)
    assert bucket.take(1, uid=8) == [0.0]
    assert bucket.take(1000, uid=0) == [0.0] * 1000


def test_a_low_rate_still_allows_ten_requests_at_once() -> None:
    assert Bucket(0.1).take(10) == [0.0] * 10


def test_a_million_users_are_not_remembered() -> None:
    bucket = Bucket()
    for uid in range(1, 3000):
        bucket.now += 1.0
        bucket.take(1, uid)
    assert len(bucket.rates._buckets) <= 1100
