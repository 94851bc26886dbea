"""The training of `benchmarks.elastic.real`: a small network by DDP with gloo, on simulated GPUs.

    real_training.py elastic|plain NOTES SEED STEPS COMPUTE_S

`elastic` runs under `radrun`; `plain` under torchrun, with a checkpoint when radrm asks for one.
NOTES is a folder: each step is noted there with its time, samples and loss. COMPUTE_S stands for
the time of a GPU: that of a step by one worker, divided by their number.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

BATCH = 64
SEED = 5
"""Of the data: the same in all runs."""


class Notes:
    """What the benchmark reads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.run = f"{os.getpid()}-{os.environ.get('RADRM_ATTEMPT', '')}"

    def add(self, name: str, **fields: Any) -> None:
        line = json.dumps({"run": self.run, "rank": dist.get_rank(), **fields}) + "\n"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        fd = os.open(self._folder / name, flags, 0o600)
        os.write(fd, line.encode())
        os.close(fd)


def main() -> None:
    way, folder, seed, steps, compute_s = sys.argv[1:]
    attach()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    notes = Notes(Path(folder))
    torch.manual_seed(int(seed))
    network = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    train = by_elastic if way == "elastic" else plainly
    inputs, targets = samples(int(steps))
    train(notes, network, inputs, targets, float(compute_s))
    if dist.get_rank() == 0:
        with torch.no_grad():
            notes.add("end", loss=float(error(network(inputs), targets)))
    dist.destroy_process_group()


def attach() -> None:
    """Hold memory of this worker's simulated GPUs until it ends, as a context would."""
    path = os.environ.get("RADRM_SIMULATED_GPUS")
    if path:
        from radrm.host.simulated.client import DriverClient

        client = DriverClient(path)
        gpus = len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))
        client.attach(os.environ["CUDA_VISIBLE_DEVICES"], smact=0.5, gpus=gpus)
        client.alloc(1024)
        client.start()
        globals()["_client"] = client


def samples(steps: int) -> tuple[Any, Any]:
    """Inputs and noisy targets of a network that is to be learned."""
    made = torch.Generator().manual_seed(SEED)
    inputs = torch.randn(steps * BATCH, 32, generator=made)
    teacher = torch.randn(32, 1, generator=made) / 32**0.5
    noise = 0.3 * torch.randn(len(inputs), 1, generator=made)
    return inputs, torch.tanh(inputs @ teacher) + noise


def error(outputs: Any, targets: Any) -> Any:
    return torch.nn.functional.mse_loss(outputs, targets)


def by_elastic(notes: Notes, network: Any, inputs: Any, targets: Any, compute_s: float) -> None:
    from radrm import elastic

    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    numbers = torch.arange(len(inputs))
    dataset = torch.utils.data.TensorDataset(inputs, targets, numbers)
    data = elastic.ShardedDataset(dataset, epochs=1, seed=SEED)
    done = 0
    state = elastic.load()
    if state is not None:
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["step"]
    notes.add("begun", step=done, at_s=time.monotonic())
    requests = timed_requests(elastic)
    for x, y, which in elastic.loader(data, global_batch=BATCH, num_workers=0):
        loss = error(model(x), y)
        (loss * elastic.weight()).backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(compute_s / dist.get_world_size())
        done += 1
        mine = which.tolist() if elastic.weight() else []
        notes.add("steps", step=done, at_s=time.monotonic(), samples=mine, loss=float(loss))
        if elastic.step(loss=loss):
            notes.add("requests", seconds=requests)
            network_state, optimizer_state = network.state_dict(), optimizer.state_dict()
            elastic.save({"network": network_state, "optimizer": optimizer_state, "step": done})


def timed_requests(elastic: Any) -> list[float]:
    """The seconds of each request for data, which are added from now on."""
    found: list[float] = []
    link = elastic._job().link
    ask = link.ask

    def timed(message: dict[str, Any]) -> Any:
        before = time.perf_counter()
        answer = ask(message)
        if message.get("do") == "round":
            found.append(time.perf_counter() - before)
        return answer

    link.ask = timed
    return found


def plainly(notes: Notes, network: Any, inputs: Any, targets: Any, compute_s: float) -> None:
    """The same training without `elastic`: it can save, and start from what is saved."""
    from radrm.report import Reporter

    report = Reporter()
    path = Path(os.environ["RADRM_CHECKPOINT_DIR"]) / "plain.pt"
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    done = 0
    if path.exists():
        state = torch.load(path)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["step"]
    notes.add("begun", step=done, at_s=time.monotonic())
    rank, size = dist.get_rank(), dist.get_world_size()
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(SEED))
    while done * BATCH < len(inputs):
        mine = order[done * BATCH : (done + 1) * BATCH][rank::size]
        error(model(inputs[mine]), targets[mine]).backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(compute_s / size)
        done += 1
        notes.add("steps", step=done, at_s=time.monotonic(), samples=mine.tolist(), loss=0.0)
        wanted = torch.tensor([int(report.checkpoint_wanted())])
        dist.all_reduce(wanted, op=dist.ReduceOp.MAX)
        if wanted.item() and rank == 0:
            saved = {"network": network.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**saved, "step": done}, f"{path}.new")
            os.replace(f"{path}.new", path)
            report.saved(done, total=len(inputs) // BATCH)


if __name__ == "__main__":
    main()
