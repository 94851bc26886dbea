"""A synchronous training whose model is the list of samples that it was trained on.

Arguments: JSON with samples, batch, and what `ShardedDataset` and `loader` take. The workers
gather what all have read by a socket of rank 0: that keeps them in step, as gradients do.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

from radrm import elastic

rank, world = int(os.environ.get("ROLE_RANK", 0)), int(os.environ.get("ROLE_WORLD_SIZE", 1))
asked = json.loads(sys.argv[1])


class Ring:
    def __init__(self) -> None:
        name = "\0radrm-test-" + os.getcwd() + os.environ.get("RADRM_GENERATION", "")
        self.files = []
        if rank == 0 and world > 1:
            server = socket.socket(socket.AF_UNIX)
            server.bind(name)
            server.listen(world)
            self.files = [server.accept()[0].makefile("rw") for _ in range(world - 1)]
        elif world > 1:
            deadline = time.monotonic() + 60
            while True:
                client = socket.socket(socket.AF_UNIX)
                try:
                    client.connect(name)
                    break
                except ConnectionRefusedError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.005)
            self.files = [client.makefile("rw")]

    def gather(self, values: list) -> list:
        if rank:
            self.put(self.files[0], [rank, values])
            return json.loads(self.files[0].readline())
        parts = sorted([[0, values], *(json.loads(file.readline()) for file in self.files)])
        found = [value for _, part in parts for value in part]
        for file in self.files:
            self.put(file, found)
        return found

    @staticmethod
    def put(file, value) -> None:
        file.write(json.dumps(value) + "\n")
        file.flush()


saves = 0


def dies(*given) -> None:
    """Die at the second save: `dies_in` is the function of `elastic` that does not return."""
    global saves
    saves += 1
    if saves == 2:
        os.kill(os.getpid(), 9)
    whole(*given)


if "dies_in" in asked:
    whole = getattr(elastic, asked["dies_in"])
    setattr(elastic, asked["dies_in"], dies)

data = elastic.ShardedDataset(range(asked["samples"]), **asked.get("data", {}))
model = elastic.load() or {"seen": [], "weights": 0.0}
start = len(model["seen"])
ring = Ring()
for count, batch in enumerate(elastic.loader(data, **asked["loader"])):
    part = [[sample, elastic.weight()] for sample in batch]
    found = ring.gather(part)
    model["seen"] += [sample for sample, weight in found if weight]
    if count + 1 == asked.get("dies_at") and str(rank) in asked["who"]:
        os.kill(os.getpid(), 9)
    if count + 1 == asked.get("signals_at"):
        os.kill(os.getpid(), 10)
    if asked.get("pace_s"):
        time.sleep(asked["pace_s"])
    if elastic.step(loss=1.0, every_s=asked.get("every_s")):
        elastic.save(model)
print(json.dumps({"start": start, "seen": model["seen"], "rank": rank}))
