"""Measure the memory of a CUDA context: `PYTHON radrm/tracer/probe.py`, a job alone on a GPU.

It makes a context, multiplies two small matrices and waits while the daemon reads its memory
a few times. These readings are the result. It runs in the *user's* Python, as its own program.
"""

from __future__ import annotations

import sys
import time

SHOWN_S = 6.0
"""The context stays for these seconds, so that several readings see it."""


def main() -> int:
    try:
        import torch
    except Exception as error:
        print(f"this Python cannot import torch: {error}", file=sys.stderr)
        return 1
    if not torch.cuda.is_available():
        print("PyTorch finds no GPU here", file=sys.stderr)
        return 1
    matrix = torch.ones(64, 64, device="cuda")
    float((matrix @ matrix).sum())
    torch.cuda.synchronize()
    time.sleep(SHOWN_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
