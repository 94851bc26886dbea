"""A small convolutional network on random pictures of 28 x 28: the light training of Table 3.2.

    train.py --epochs 3
    train.py --epochs 2 --profile FILE      under PyTorch's profiler, whose trace goes to FILE

The thesis of RAD-RM trains such a network on MNIST (section 3.3.1); random pictures cost the
same and need no download. Prints one line of JSON for each epoch, and at the end the CPU seconds
and the memory of the process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import time
from typing import Any

PICTURES = 60_000
BATCH = 64


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train a small network on random pictures.")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--pictures", type=int, default=PICTURES)
    parser.add_argument("--profile", metavar="FILE")
    args = parser.parse_args(argv)

    import torch
    from torch import nn

    pictures = torch.randn(args.pictures, 1, 28, 28, device="cuda")
    labels = torch.randint(0, 10, (args.pictures,), device="cuda")
    net = nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(9216, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    ).to("cuda")
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with contextlib.ExitStack() as ends:
        profiler: Any = None
        if args.profile:
            profiler = ends.enter_context(torch.profiler.profile())
        for epoch in range(args.epochs):
            began = time.monotonic()
            for first in range(0, args.pictures, BATCH):
                optimizer.zero_grad()
                batch = slice(first, first + BATCH)
                loss_of(net(pictures[batch]), labels[batch]).backward()
                optimizer.step()
            torch.cuda.synchronize()
            print(json.dumps({"epoch": epoch, "epoch_s": time.monotonic() - began}), flush=True)
    if profiler is not None:
        profiler.export_chrome_trace(args.profile)
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = used.ru_utime + used.ru_stime
    print(json.dumps({"cpu_s": cpu_s, "memory_mib": used.ru_maxrss / 1024}), flush=True)


if __name__ == "__main__":
    main()
