"""A CUDA program that says how it went, in lines of JSON: for the checks of MPS.

client.py --seconds 10            matrix products; the last line has the steps
client.py --until-oom             takes memory until there is none: how much, and the error
client.py --fault 2               after 2 s a kernel writes to a bad address
client.py --saves                 works; at TERM it does some more, says so, and ends well
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from typing import Any

_PIECE = 16 << 20
"""So many bytes `--until-oom` takes at a time."""
_CHARACTERS = 2000
"""Of an error's text."""


def say(**fields: Any) -> None:
    print(json.dumps({"pid": os.getpid(), **fields}), flush=True)


def text_of(error: BaseException) -> dict[str, str]:
    return {"type": type(error).__name__, "text": str(error)[:_CHARACTERS]}


def begin(user: int | None) -> Any:
    """PyTorch with a CUDA context; what it found is said."""
    import torch

    if user is not None:  # after the import: it may not be able to read it
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    began = time.monotonic()
    try:
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
    except Exception as error:
        say(init_error=text_of(error), init_s=time.monotonic() - began)
        sys.exit(3)
    free, total = torch.cuda.mem_get_info()
    units = torch.cuda.get_device_properties(0).multi_processor_count
    say(
        init_s=time.monotonic() - began,
        free_mib=free >> 20,
        total_mib=total >> 20,
        sms=units,
        limit=os.environ.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"),
        devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
    )
    return torch


def until_oom(torch: Any) -> None:
    held = []
    try:
        while True:
            held.append(torch.empty(_PIECE, dtype=torch.uint8, device="cuda"))
    except Exception as error:
        say(held_mib=len(held) * _PIECE >> 20, **text_of(error))


def fault(torch: Any, after_s: float) -> None:
    from kernels import Kernels

    time.sleep(after_s)
    Kernels().bad()
    try:
        torch.cuda.synchronize()
    except Exception as error:
        say(fault=text_of(error))
    sys.exit(4)


def work(torch: Any, seconds: float, size: int, saves: bool = False) -> None:
    told: list[int] = []
    if saves:
        signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(a)
    done, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            for _ in range(20):
                torch.matmul(a, a, out=out)
            torch.cuda.synchronize()
        except Exception as error:
            say(steps=done, died_of=text_of(error), told=told)
            sys.exit(5)
        done += 1
        if told and done > 1:
            say(steps=done, saved=True, told=told)
            sys.exit(0)
        if done == 1:
            print("step 1", flush=True)
    say(steps=done, ended="well")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A CUDA program that says how it went.")
    add = parser.add_argument
    add("--seconds", type=float, default=10.0)
    add("--size", type=int, default=4096, help="rows and columns of the matrices")
    add("--until-oom", action="store_true")
    add("--fault", type=float, metavar="S", help="a bad kernel after so many seconds")
    add("--saves", action="store_true", help="handle TERM")
    add("--user", type=int, metavar="UID", help="become this user first")
    args = parser.parse_args(argv)
    torch = begin(args.user)
    if args.until_oom:
        until_oom(torch)
    elif args.fault is not None:
        fault(torch, args.fault)
    else:
        work(torch, args.seconds, args.size, args.saves)


if __name__ == "__main__":
    main()
