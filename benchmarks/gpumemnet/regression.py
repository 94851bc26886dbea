"""Why memory is learned as buckets and not as a number: Table 5.1 and Figures 5.4 to 5.6.

    python -m benchmarks.gpumemnet.regression

Writes docs/lab/gpumemnet-regression.svg, and prints the figures that stand beside it. The thesis's
first data set (Keras, uniform MLPs) is not available: this is its second, 2,100 measured MLPs, and
the networks are those of the classifier, with one output. Needs PyTorch and matplotlib.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.gpumemnet import data, fit, train
from benchmarks.gpumemnet.data import Row

PICTURE = train.REPOSITORY / "docs" / "lab" / "gpumemnet-regression.svg"
GIB = 1024.0
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


def regressed(rows: train.Split) -> Numbers:
    """The memory of the test rows in MiB, by thirteen perceptrons that were fitted to its log."""
    torch.manual_seed(train.SEED)
    raw = inputs(rows.train)
    centre, scale = raw.mean(0), raw.std(0)
    wanted = np.log([row.memory_mib for row in rows.train])
    x = torch.tensor((raw - centre) / scale, dtype=torch.float32)
    y = torch.tensor((wanted - wanted.mean()) / wanted.std(), dtype=torch.float32)
    tested = torch.tensor((inputs(rows.test) - centre) / scale, dtype=torch.float32)
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


def accuracy(told: Sequence[float], rows: Sequence[Row], edges: Sequence[int]) -> float:
    """How often the told memory lies in the true bucket."""
    pairs = zip(told, rows, strict=True)
    return statistics.mean(
        fit.bucket_of(mib, edges) == fit.bucket_of(row.memory_mib, edges) for mib, row in pairs
    )


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
    stairs.plot(parameters[few] / 1e6, memory[few], ".", markersize=3)
    stairs.set(xlabel="parameters (millions)", ylabel="memory (MiB)", title="staircase (5.4)")
    shown = batches.scatter(batch, memory, s=4, c=np.log10(parameters))
    figure.colorbar(shown, ax=batches, label="log10 parameters")
    batches.set(xlabel="batch", ylabel="memory (MiB)", title="batch size (5.5)")
    x, y = principal(rows).T
    for bucket in range(len(train.MLP_1_GB) + 1):
        chosen = np.array([fit.bucket_of(mib, train.MLP_1_GB) == bucket for mib in memory])
        if chosen.any():
            components.plot(x[chosen], y[chosen], ".", markersize=3, label=f"{bucket + 1}")
    components.legend(title="GB", markerscale=3)
    components.set(xlabel="component 1", ylabel="component 2", title="buckets, by PCA (5.6a)")
    figure.savefig(path, metadata={"Date": None, "Creator": None})


def main() -> None:
    torch.set_num_threads(1)
    rows = list(data.measured_mlps())
    one = train.split(rows, 0)
    told = regressed(one)
    true = np.array([row.memory_mib for row in one.test])
    wide = inputs(rows)
    plane, *_ = np.linalg.lstsq(
        np.c_[np.exp(wide[:, 2]), np.exp(wide[:, 1] + wide[:, 3]), np.ones(len(rows))],
        np.array([row.memory_mib for row in rows]),
        rcond=None,
    )
    sizes = sorted({round(row.memory_mib) for row in rows})
    print(f"{len(rows)} MLPs take {len(sizes)} different sizes")
    print(f"bytes a parameter, by least squares: {plane[0] * 2**20:.1f}")
    print(f"regression: mean error {np.abs(told - true).mean():.0f} MiB, ", end="")
    print(f"largest {np.abs(told - true).max():.0f} MiB, below {np.mean(told < true):.3f} of them")
    for name, edges in (("1 GB", train.MLP_1_GB), ("2 GB", train.MLP_2_GB)):
        classified = train.ensemble(train.fit_mlps(one, edges))
        named = [
            classified.bucket(row.features.vector()) == fit.bucket_of(row.memory_mib, edges)
            for row in one.test
        ]
        print(
            f"bucket of {name}: by regression {accuracy(told.tolist(), one.test, edges):.4f}, "
            f"by the classifier {statistics.mean(named):.4f}, always the commonest "
            f"{max(np.bincount([fit.bucket_of(m, edges) for m in true])) / len(true):.4f}"
        )
    draw(rows, PICTURE)


if __name__ == "__main__":
    main()
