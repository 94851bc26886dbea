"""Tables, as torchsummary prints them, of the TIMM models in a file of measurements.

    PYTHON -m benchmarks.estimates.timm_tables MEASURED.csv FOLDER

Needs PyTorch and timm; models are made on the meta device, so nothing is computed. The
file has a column `model`; the input size is that of the model's own configuration.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.models import allow_torchvision

allow_torchvision()

import timm  # noqa: E402

RULE = "=" * 64


def rows_of(model: nn.Module, size: tuple[int, ...]) -> list[tuple[str, list[Any], int]]:
    """Kind, output shapes and parameters of every module's call, as torchsummary hooks them."""
    rows: list[tuple[str, list[Any], int]] = []

    def note(module: nn.Module, given: object, made: Any) -> None:
        tensors = [made] if isinstance(made, torch.Tensor) else list(made)
        shapes = [[-1, *each.shape[1:]] for each in tensors if isinstance(each, torch.Tensor)]
        own = (getattr(module, name, None) for name in ("weight", "bias"))
        count = sum(each.numel() for each in own if isinstance(each, torch.Tensor))
        rows.append((type(module).__name__, shapes[0] if len(shapes) == 1 else shapes, count))

    for module in model.modules():
        if module is not model and not isinstance(module, nn.Sequential | nn.ModuleList):
            module.register_forward_hook(note)
    model.train()(torch.zeros((2, *size), device="meta"))
    return rows


def table_of(name: str) -> str:
    with torch.device("meta"):
        model = timm.create_model(name)
    size = tuple(model.pretrained_cfg["input_size"])
    rows = rows_of(model, size)
    lines = [
        f"{f'{kind}-{place}':>24} {shapes!s:>26} {count:>15,}"
        for place, (kind, shapes, count) in enumerate(rows, 1)
    ]
    total = sum(count for _, _, count in rows)
    input_mib = torch.Size(size).numel() * 4 / 2**20
    head = ["        Layer (type)               Output Shape         Param #", RULE]
    foot = [RULE, f"Total params: {total:,}", f"Input size (MB): {input_mib:.2f}", ""]
    return "\n".join([*head, *lines, *foot])


def main() -> None:
    measured, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with measured.open(encoding="utf-8", newline="") as lines:
        names = sorted({row["model"] for row in csv.DictReader(lines)})
    for name in names:
        try:
            text = table_of(name)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
        else:
            (folder / f"{name}.model").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
