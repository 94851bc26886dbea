"""Train one of the published jobs on made-up data: `python -m benchmarks.models.train MODEL`.

    python -m benchmarks.models.train resnet50 --batch-size 64
    python -m benchmarks.models.train cifar.resnet18 --batch-size 32 --epochs 20
    python -m benchmarks.models.train gpt2_large --batch-size 8 --smoke

MODEL is a factory of `vision`, `cifar` or `text`; `examples/traces/table62.csv` has a command for
each job of RAD-RM's Table 6.2, for `radrm trace run` from the folder of this repository. The
published scripts are not at hand: SGD for CNNs, AdamW for transformers, and the sequences of an
epoch of WikiText are ours. Several GPUs share a batch (`DataParallel`). `--smoke` makes two steps
on a few small samples, with two layers of a transformer: enough for a CPU.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import Any

import torch

from radrm.report import Reporter

EPOCHS = {"cifar": 50_000, "text": 4_700, "vision": 1_281_167}
"""The samples of an epoch: CIFAR-100, WikiText-2 in sequences of 512 tokens (ours), ImageNet."""
SMOKE_STEPS, SMOKE_SAMPLES, SMOKE_TOKENS, SMOKE_LAYERS = 2, 2, 16, 2
_TOLD_STEPS = 20
"""Steps between two reports."""


def made(name: str, batch_size: int, smoke: bool) -> tuple[str, dict[str, Any]]:
    """Return the family of a model, and its model, inputs, labels and optimizer.

    Raises `SystemExit` for a name without a factory.
    """
    family, _, short = name.rpartition(".")
    for module in [family] if family else ["vision", "text", "cifar"]:
        if module in EPOCHS:
            factory = getattr(import_module(f"benchmarks.models.{module}"), short, None)
            if callable(factory):
                options = {}
                if smoke and module == "text":
                    options = {"sequence_length": SMOKE_TOKENS, "layers": SMOKE_LAYERS}
                return module, _parts(factory(batch_size=batch_size, **options))
    sys.exit(f"{name}: no such model in benchmarks/models; write a name, or cifar.NAME")


def _parts(found: Any) -> dict[str, Any]:
    if isinstance(found, dict):
        return found
    model, inputs, labels, *loss = found
    return {
        "model": model,
        "inputs": inputs,
        "labels": labels,
        "loss": loss[0] if loss else torch.nn.functional.cross_entropy,
        "optimizer": lambda weights: torch.optim.SGD(weights, lr=0.01, momentum=0.9),
    }


def train(parts: dict[str, Any], steps: int) -> float:
    """Make so many steps, and return the last loss."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = parts["model"].to(device).train()
    optimizer = parts["optimizer"](model.parameters())
    if torch.cuda.device_count() > 1:
        model = torch.nn.DataParallel(model)
    inputs = _moved(parts["inputs"], device)
    labels = _moved(parts.get("labels"), device)
    report, loss = Reporter(), 0.0
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        if isinstance(inputs, dict):  # the model computes its loss from the labels in them
            found = model(**inputs).loss.mean()
        else:
            found = parts["loss"](model(inputs), labels)
        found.backward()
        optimizer.step()
        if step % _TOLD_STEPS == 0 or step == steps:
            loss = found.item()
            report.progress(step=step, total=steps, loss=loss)
    return loss


def _moved(what: Any, device: str) -> Any:
    if isinstance(what, dict):
        return {name: each.to(device) for name, each in what.items()}
    return None if what is None else what.to(device)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models.train", description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="two small steps, for a CPU")
    asked = parser.parse_args()
    batch_size = SMOKE_SAMPLES if asked.smoke else asked.batch_size
    family, parts = made(asked.model, batch_size, asked.smoke)
    steps = SMOKE_STEPS if asked.smoke else asked.epochs * EPOCHS[family] // asked.batch_size
    loss = train(parts, steps)
    print(f"{asked.model}: {steps} steps, loss {loss:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
