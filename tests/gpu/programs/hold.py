"""Takes GPU memory and keeps it until a file is there: for the acceptance tests.

    hold.py --memory 20000 --until go
    hold.py --memory 20 --until go --cpu     the same in host memory, without PyTorch

Dies as PyTorch does when there is not enough.
"""

from __future__ import annotations

import argparse
import os
import time


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Holds GPU memory until a file is there.")
    add = parser.add_argument
    add("--memory", type=int, required=True, metavar="MIB")
    add("--until", metavar="FILE", help="ends once it is there; at once without")
    add("--seconds", type=float, default=900.0, help="ends after so long in any case")
    add("--cpu", action="store_true", help="without a GPU")
    args = parser.parse_args(argv)
    if args.cpu:
        held = bytearray(args.memory << 20)
    else:
        import torch

        held = torch.empty(args.memory << 20, dtype=torch.uint8, device="cuda")
    print(f"holding {len(held) >> 20} MiB", flush=True)
    deadline = time.monotonic() + args.seconds
    while args.until and not os.path.exists(args.until) and time.monotonic() < deadline:
        time.sleep(0.1)


if __name__ == "__main__":
    main()
