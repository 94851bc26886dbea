"""Data-parallel training by torch and gloo. Prints the parameters at the end.

Argument: JSON of what `loader` takes.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import IterableDataset, TensorDataset

from radrm import elastic

torch.set_num_threads(1)
inputs = torch.tensor([[math.sin(i), math.cos(2 * i), i / 37] for i in range(37)])
targets = inputs @ torch.tensor([1.0, -2.0, 3.0]) + 0.3
model = torch.nn.Linear(3, 1)
torch.nn.init.constant_(model.weight, 0.1)
torch.nn.init.constant_(model.bias, 0.0)
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", f"file://{os.getcwd()}/meeting", rank=rank, world_size=world)
train = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

data = elastic.ShardedDataset(TensorDataset(inputs, targets), epochs=3, seed=1)
assert isinstance(data, IterableDataset)
state = elastic.load()
assert state is None
steps = 0
for x, y in elastic.loader(data, **json.loads(sys.argv[1])):
    with contextlib.nullcontext() if elastic.last_part() else train.no_sync():
        loss = torch.nn.functional.mse_loss(train(x)[:, 0], y)
        (loss * elastic.weight()).backward()
    if elastic.last_part():
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
    if elastic.step(loss=loss):
        elastic.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
print(json.dumps([*model.weight[0].tolist(), model.bias.item(), steps]))
dist.destroy_process_group()
