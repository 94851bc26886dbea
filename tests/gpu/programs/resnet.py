"""A ResNet of 26, 50 or 152 layers on random pictures: the models of chapter 4 of RAD-RM's thesis.

    resnet.py --depth 50 --image 64 --batch 128 --steps 500

Random pictures cost the same and need no download. All sizes of pictures have the stem of
ImageNet's. Prints `step N`, and at its end one line of JSON: the time of the steps, and the CPU
seconds and memory of the process. With `--wait` it says `ready` after its first steps, and begins
when it reads a line: so several begin at once.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from typing import Any

BLOCKS = {26: (2, 2, 2, 2), 50: (3, 4, 6, 3), 152: (3, 8, 36, 3)}
_FIRST = 5
"""Steps in which cuDNN chooses its algorithms; nothing is timed."""


def network(depth: int, classes: int) -> Any:
    """As He et al. have it, with bottlenecks."""
    from torch import nn

    class Bottleneck(nn.Module):
        def __init__(self, inputs: int, width: int, stride: int) -> None:
            super().__init__()
            self.path = nn.Sequential(
                nn.Conv2d(inputs, width, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
                nn.Conv2d(width, width, 3, stride, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
                nn.Conv2d(width, 4 * width, 1, bias=False),
                nn.BatchNorm2d(4 * width),
            )
            self.beside: Any = nn.Identity()
            if stride > 1 or inputs != 4 * width:
                self.beside = nn.Sequential(
                    nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
                )
            self.last = nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.last(self.path(x) + self.beside(x))

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inputs = 64
    for stage, blocks in enumerate(BLOCKS[depth]):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            layers.append(Bottleneck(inputs, 64 << stage, stride))
            inputs = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train a ResNet on random pictures.")
    add = parser.add_argument
    add("--depth", type=int, choices=tuple(BLOCKS), default=50)
    add("--image", type=int, default=64, help="pixels of a side")
    add("--batch", type=int, default=128)
    add("--classes", type=int, default=1000)
    add("--steps", type=int, default=500)
    add("--wait", action="store_true", help="begin when a line is read")
    args = parser.parse_args(argv)

    import torch
    from torch import nn

    net = network(args.depth, args.classes).to("cuda")
    pictures = torch.randn(args.batch, 3, args.image, args.image, device="cuda")
    labels = torch.randint(0, args.classes, (args.batch,), device="cuda")
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def train(steps: int) -> float:
        began = time.monotonic()
        for step in range(steps):
            optimizer.zero_grad()
            loss_of(net(pictures), labels).backward()
            optimizer.step()
            if step % 50 == 49:
                print(f"step {step + 1}", flush=True)
        torch.cuda.synchronize()
        return time.monotonic() - began

    train(_FIRST)
    if args.wait:
        print("ready", flush=True)
        sys.stdin.readline()
    seconds = train(args.steps)
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = used.ru_utime + used.ru_stime
    found = {"steps": args.steps, "seconds": seconds, "step_s": seconds / args.steps}
    print(json.dumps({**found, "cpu_s": cpu_s, "memory_mib": used.ru_maxrss / 1024}), flush=True)


if __name__ == "__main__":
    main()
