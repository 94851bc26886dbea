"""Code that the training scripts share: options, a small network, synthetic images."""

from __future__ import annotations

import argparse
import sys
from typing import Any

SIDE = 16
CLASSES = 10
IMAGES = 2048


def import_torch() -> Any:
    """Import PyTorch. If it is missing, print one line and exit with code 1."""
    try:
        import torch
    except ImportError as error:
        sys.exit(
            f"{sys.argv[0]}: PyTorch cannot be imported ({error}); "
            "activate an environment that has it, or: pip install torch"
        )
    return torch


def arguments(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    return parser


def network(torch: Any) -> Any:
    """A network of 7,018 parameters; `small_cnn.model` is its summary."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 6 * 6, CLASSES),
    )


def images(torch: Any, seed: int) -> tuple[Any, Any]:
    """Noisy copies of one random picture per class, and their classes."""
    generator = torch.Generator().manual_seed(seed)
    pictures = torch.randn(CLASSES, 1, SIDE, SIDE, generator=generator)
    labels = torch.randint(CLASSES, (IMAGES,), generator=generator)
    noise = torch.randn(IMAGES, 1, SIDE, SIDE, generator=generator)
    return pictures[labels] + noise, labels


def batches(torch: Any, count: int, size: int, seed: int) -> Any:
    """The numbers 0..count-1 in a random order, in pieces of at most `size`."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(count, generator=generator).split(size)
