"""What a CUDA context takes: `PYTHON radrm/tracer/probe.py`, as a job on a GPU of its own.

It makes a context, multiplies two small matrices and waits until its memory has been read a
few times; the daemon's readings are the result. A program of its own in the *user's* Python.
"""

from __future__ import annotations

import sys
import time

SHOWN_S = 6.0
"""Seconds for which the context stays, so that several rounds of readings see it."""


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
