"""The time of one call of ANDREAS's optimizer: 1000 constructions.

Published: always below 0.1 s, for up to 100 nodes (section V-B). Half of the nodes have two V100,
half one T4. Ten jobs for each node are there at once, which is more than a load below 1 leaves.
"""

from __future__ import annotations

import random
import time
from itertools import product

from benchmarks.table import Row, median_ms
from radrm.published.capacity.problem import Configuration, Price, Problem, Server, Work, in_order
from radrm.published.capacity.randomized import Chance, construct_many

_LIMIT_MS = 100.0
_ITERATIONS = 1000
_WATTS = ((0.0, 530.0, 700.0), (0.0, 400.0))
_PRICE = Price((0.0, 3600.0), (0.0, 0.17 * 1.33 / 1000))
_SECONDS = ((43.1, 30.6, 110.7), (51.6, 41.2, 89.0), (20.5, 17.8, 41.3))
"""Seconds of an epoch on one V100, on two, and on a T4."""


def problem(nodes: int, seed: int = 0) -> Problem:
    """Return a full queue for so many nodes."""
    draw, works = random.Random(seed), []
    for number in range(10 * nodes):
        epochs, found = draw.choice((120, 160, 320)) * draw.uniform(0.1, 1), []
        for (kind, gpus), epoch_s in zip(_PAIRS, draw.choice(_SECONDS), strict=True):
            time_s = epochs * epoch_s
            cost = _WATTS[kind][gpus] * _PRICE.of_watt(time_s)
            found.append(Configuration(kind, gpus, time_s, cost))
        weight = draw.uniform(0.0002537, 0.0004440)
        works.append(Work(number, draw.uniform(-3600, 36_000), weight, tuple(found)))
    servers = tuple(Server(*pair) for _, pair in product(range(nodes // 2), ((0, 2), (1, 1))))
    return Problem(in_order(works), servers, _WATTS, _PRICE)


_PAIRS = ((0, 1), (0, 2), (1, 1))


def measure(rounds: int = 7) -> list[Row]:
    """Return the median times of a call."""
    rows = []
    for nodes in (10, 100):
        found, seconds = problem(nodes), []
        for number in range(rounds):
            begun_s = time.perf_counter()
            construct_many(found, _ITERATIONS, Chance(0, number))
            seconds.append(time.perf_counter() - begun_s)
        what = f"a call of andreas, {nodes} nodes, {len(found.works)} jobs"
        rows.append(Row(what, median_ms(seconds), _LIMIT_MS, "ms"))
    return rows
