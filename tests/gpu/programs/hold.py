"""Takes GPU memory and keeps it until a file is there: for the acceptance tests.

    hold.py --memory 20000 --until go
    hold.py --memory 4000 --until go --more 3000    takes 3000 more then, and ends
    hold.py --memory 20 --until go --cpu     the same in host memory, without PyTorch

Dies as PyTorch does when there is not enough.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any


def take(mib: int, cpu: bool) -> Any:
    if cpu:
        return bytearray(mib << 20)
    import torch

    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Holds GPU memory until a file is there.")
    add = parser.add_argument
    add("--memory", type=int, required=True, metavar="MIB")
    add("--until", metavar="FILE", help="ends once it is there; at once without")
    add("--more", type=int, metavar="MIB", help="taken besides at the end")
    add("--seconds", type=float, default=900.0, help="ends after so long in any case")
    add("--cpu", action="store_true", help="without a GPU")
    args = parser.parse_args(argv)
    held = [take(args.memory, args.cpu)]
    print(f"holding {args.memory} MiB", flush=True)
    deadline = time.monotonic() + args.seconds
    while args.until and not os.path.exists(args.until) and time.monotonic() < deadline:
        time.sleep(0.1)
    if args.more:
        held.append(take(args.more, args.cpu))
        print(f"holding {args.memory + args.more} MiB", flush=True)


if __name__ == "__main__":
    main()
