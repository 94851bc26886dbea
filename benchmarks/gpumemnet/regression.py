"""Memory as a number or as a bucket: Table 5.1 and Figures 5.4 to 5.6 of the thesis.

    python -m benchmarks.gpumemnet.regression

The thesis says that regression fails and classes do not. Here the same thirteen perceptrons learn
the logarithm of the memory, or its bucket, from the same measured rows, and both are judged by
buckets. Writes docs/lab/gpumemnet-regression.svg. The thesis's first data set (Keras, uniform MLPs)
is not available: this is its second, and TIMM's models. Needs PyTorch and matplotlib.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.gpumemnet import data, fit, scores, train
from benchmarks.gpumemnet.data import Row
from radrm.estimators.gpumemnet.features import Family

PICTURE = train.REPOSITORY / "docs" / "lab" / "gpumemnet-regression.svg"
EPOCHS = 150
_BATCH = 64
Numbers = np.ndarray


def inputs(rows: Sequence[Row]) -> Numbers:
    """What the thesis gives its regressions: layers, batch, parameters, activations; logarithms."""
    found = [
        [row.features.depth, row.features.batch_size, row.features.parameters,
         row.features.activations]
        for row in rows
    ]  # fmt: skip
    return np.log(np.array(found, dtype=float))


def vectors(rows: Sequence[Row]) -> Numbers:
    """What the classifier is given."""
    return np.array([row.features.vector() for row in rows])


def regressed(rows: train.Split, given: Callable[[Sequence[Row]], Numbers]) -> Numbers:
    """The memory of the test rows in MiB, by thirteen perceptrons that were fitted to its log."""
    torch.manual_seed(train.SEED)
    raw = given(rows.train)
    centre, scale = raw.mean(0), np.maximum(raw.std(0), 1e-3)
    wanted = np.log([row.memory_mib for row in rows.train])
    x = torch.tensor((raw - centre) / scale, dtype=torch.float32)
    y = torch.tensor((wanted - wanted.mean()) / wanted.std(), dtype=torch.float32)
    tested = torch.tensor((given(rows.test) - centre) / scale, dtype=torch.float32)
    told = [_fitted((raw.shape[1], *hidden, 1), x, y)(tested) for hidden in fit.HIDDEN]
    with torch.no_grad():
        mean = torch.stack(told).mean(0).squeeze(1).numpy()
    found: Numbers = np.exp(mean * wanted.std() + wanted.mean())
    return found


def _fitted(widths: Sequence[int], x: torch.Tensor, y: torch.Tensor) -> torch.nn.Sequential:
    network = fit.network_of(widths)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-3)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(x)).split(_BATCH):
            loss = torch.nn.functional.mse_loss(network(x[chosen]).squeeze(1), y[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network


def principal(rows: Sequence[Row]) -> Numbers:
    """The inputs along their first two principal components."""
    x = inputs(rows)
    x = (x - x.mean(0)) / x.std(0)
    found: Numbers = x @ np.linalg.svd(x, full_matrices=False)[2][:2].T
    return found


def draw(rows: Sequence[Row], path: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update({"svg.hashsalt": "radrm", "svg.fonttype": "none"})
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    stairs, batches, components = figure.subplots(1, 3)
    memory = np.array([row.memory_mib for row in rows])
    parameters = np.array([row.features.parameters for row in rows])
    batch = np.array([row.features.batch_size for row in rows])
    few = parameters < 2.5e6
    stairs.plot(parameters[few] / 1e6, memory[few], ".", markersize=3, rasterized=True)
    stairs.set(xlabel="parameters (millions)", ylabel="memory (MiB)", title="staircase (5.4)")
    shown = batches.scatter(batch, memory, s=4, c=np.log10(parameters), rasterized=True)
    figure.colorbar(shown, ax=batches, label="log10 parameters")
    batches.set(xlabel="batch", ylabel="memory (MiB)", title="batch size (5.5)")
    x, y = principal(rows).T
    for bucket in range(len(train.MLP_1_GB) + 1):
        chosen = np.array([fit.bucket_of(mib, train.MLP_1_GB) == bucket for mib in memory])
        if chosen.any():
            components.plot(
                x[chosen], y[chosen], ".", markersize=3, label=f"{bucket + 2}", rasterized=True
            )
    components.legend(title="up to GB", markerscale=3)
    components.set(xlabel="component 1", ylabel="component 2", title="buckets, by PCA (5.6a)")
    figure.savefig(path, dpi=80, metadata={"Date": None, "Creator": None})


def compare(
    name: str,
    rows: train.Split,
    edges: tuple[int, ...],
    given: Callable[[Sequence[Row]], Numbers] = vectors,
) -> None:
    """Print a row: errors of the number, and the accuracy of the bucket by either way.

    `given`: what the regression has as inputs.
    """
    told = regressed(rows, given)
    true = np.array([row.memory_mib for row in rows.test])
    classes = fit.fitted(
        rows.train, rows.validation, edges, epochs=EPOCHS, batch=_BATCH, noise=0.03, seed=train.SEED
    )
    by_class = scores.line(name, scores.told(train.ensemble(classes), rows.test))
    within = true <= scores.LARGEST_MEASURED_MIB
    by_number = statistics.mean(
        fit.bucket_of(a, edges) == fit.bucket_of(b, edges)
        for a, b in zip(told[within], true[within], strict=True)
    )
    error = np.abs(told - true)
    print(
        f"| {name} | {len(true)} | {error.mean():.0f} | {np.median(error / true):.1%} |"
        f" {error.max():.0f} | {by_number:.4f} | {by_class.accuracy:.4f} |",
        flush=True,
    )


def main() -> None:
    torch.set_num_threads(1)
    mlps = list(data.measured_mlps())
    sizes = {round(row.memory_mib) for row in mlps}
    print(f"{len(mlps)} MLPs take {len(sizes)} different sizes")
    draw(mlps, PICTURE)
    print("| | tested | mean error (MiB) | median | largest (MiB) | bucket by number | by class |")
    compare("MLPs, 1 GB", train.split(mlps, 0), train.MLP_1_GB, inputs)
    for family in (Family.CNN, Family.TRANSFORMER):
        timm = train.split(list(data.measured_timm(family)), 0)
        compare(f"TIMM's {family.value}s, unseen families, 8 GB", timm, train.STEPS_OF_8_GB)


if __name__ == "__main__":
    main()
