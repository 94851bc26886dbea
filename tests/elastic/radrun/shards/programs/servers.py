"""An asynchronous training: workers push what they have read to a parameter server.

The server's parameters are the list of samples. It loads them when it starts; a worker that saves
asks it for them.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import time

from radrm import elastic

asked = json.loads(sys.argv[1])
name = "\0radrm-test-" + os.getcwd() + os.environ["RADRM_GENERATION"]


def serve() -> None:
    """Add up what the workers send, and give it to a worker that asks."""
    elastic.on_load(lambda state, number, count: None)
    seen = elastic.load() or []
    selector = selectors.DefaultSelector()
    server = socket.socket(socket.AF_UNIX)
    server.bind(name)
    server.listen()
    selector.register(server, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is server:
                client = server.accept()[0]
                selector.register(client, selectors.EVENT_READ, client.makefile("rw"))
                continue
            line = key.data.readline()
            if not line:
                selector.unregister(key.fileobj)
                continue
            seen += json.loads(line)
            key.data.write(json.dumps(seen if line == "[]\n" else None) + "\n")
            key.data.flush()


def train() -> None:
    if os.environ["ROLE_RANK"] == "0":
        elastic.load()
    deadline = time.monotonic() + 60
    client = socket.socket(socket.AF_UNIX)
    while True:
        try:
            client.connect(name)
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)
    file = client.makefile("rw")

    def push(samples: list) -> list:
        file.write(json.dumps(samples) + "\n")
        file.flush()
        return json.loads(file.readline())

    data = elastic.ShardedDataset(range(asked["samples"]), **asked.get("data", {}))
    mine = 0
    for batch in elastic.loader(data, **asked["loader"]):
        push(batch)
        mine += len(batch)
        if mine >= asked.get("dies_after", 1 << 60) and os.environ["RADRM_TASK"] in asked["who"]:
            # Between the push and the step its samples would be trained on twice; see the docs.
            elastic.step(every_s=None)
            os.kill(os.getpid(), 9)
        if asked.get("pace_s"):
            time.sleep(asked["pace_s"])
        if elastic.step(loss=1.0, every_s=asked.get("every_s")):
            elastic.save(lambda: push([]))
    print(json.dumps({"mine": mine, "seen": push([])}))


serve() if os.environ["RADRM_ROLE"] == "ps" else train()
