"""A client of the stand-in for CUDA's MPS: what its jobs' processes are.

    python mps_client.py NOTES [stubborn] [saves] [as=UID]

It writes to NOTES what it is told and its environment, a line each. A fault ends it with 1,
unless it is stubborn: then TERM does not end it either, nor does the end of its server. A refusal
ends it with 1, in CUDA's words. With `saves` it handles TERM: it ends its work, and itself with 0.
With `as` it becomes another user first, as root may.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_LOG_DIRECTORY",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
)


def main(notes: str, stubborn: bool, saves: bool = False) -> int:
    def note(line: str) -> None:
        with open(notes, "a") as file:
            file.write(f"{line}\n")

    if stubborn:
        signal.signal(signal.SIGTERM, lambda *_: note("TERM"))
    note(f"pid={os.getpid()}")
    for name in VARIABLES:
        note(f"{name}={os.environ.get(name)}")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(os.path.join(os.environ["CUDA_MPS_PIPE_DIRECTORY"], "control"))
    except (KeyError, OSError):
        note("no MPS")  # as CUDA: it goes on without
        signal.pause()

    def save(*_: object) -> None:
        note("TERM")
        connection.sendall(b"idle\n")
        note("saved")
        sys.exit(0)

    if saves:
        signal.signal(signal.SIGTERM, save)
    connection.sendall(b"client\n")
    with connection.makefile() as told:
        for line in told:
            note(line.strip())
            if line.strip() == "terminate":
                connection.sendall(b"removed\n")
            if line.strip() == "refused":
                text = "CUDA error: MPS server is not ready to accept new MPS client requests"
                print(f"RuntimeError: {text}", file=sys.stderr)
                return 1
            if line.strip() == "fault" and not stubborn:
                return 1
    while stubborn:
        signal.pause()
    return 1


if __name__ == "__main__":
    for word in sys.argv[2:]:
        if word.startswith("as="):
            os.setuid(int(word.removeprefix("as=")))
    sys.exit(main(sys.argv[1], "stubborn" in sys.argv[2:], "saves" in sys.argv[2:]))
