"""A training by torch: several workers train the model that one would."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path

import pytest

from radrm import elastic
from tests.elastic.radrun.shards.farm import Farm
from tests.elastic.radrun.shards.test_workers import mains, output

REGRESSION = Path(__file__).parent / "programs" / "regression.py"
SAMPLES, BATCH, EPOCHS = 37, 10, 3


def one_worker() -> list[float]:
    """The parameters after the same training by hand: SGD with momentum, the mean squared error."""
    data = elastic.ShardedDataset(range(SAMPLES), epochs=EPOCHS, seed=1)
    parameters, speed = [0.1, 0.1, 0.1, 0.0], [0.0] * 4
    for epoch in range(EPOCHS):
        begin, end = epoch * SAMPLES, (epoch + 1) * SAMPLES
        for first in range(begin, end, BATCH):
            gradient, indices = [0.0] * 4, data.indices(first, min(end, first + BATCH))
            for i in indices:
                x = [math.sin(i), math.cos(2 * i), i / 37, 1.0]
                target = x[0] - 2 * x[1] + 3 * x[2] + 0.3
                error = sum(p * v for p, v in zip(parameters, x, strict=True)) - target
                gradient = [g + 2 * error * v for g, v in zip(gradient, x, strict=True)]
            speed = [0.9 * s + g / len(indices) for s, g in zip(speed, gradient, strict=True)]
            parameters = [p - 0.05 * s for p, s in zip(parameters, speed, strict=True)]
    return parameters


@pytest.mark.nightly
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_two_workers_train_the_model_that_one_would(farm: Farm) -> None:
    """37 samples in rounds of 10: a slice of 5, as micro-batches of 2 and 3; at last 4 and 3."""
    farm.begin(mains(2), REGRESSION, json.dumps({"global_batch": BATCH, "micro_batch": 3}))
    *found, steps = output(farm, ("main", 0))
    assert steps == 12
    assert found == pytest.approx(one_worker(), rel=1e-4, abs=1e-5)
    assert output(farm, ("main", 1)) == [*found, steps]
