"""Train data-parallel with one process per GPU (NCCL), or on CPUs (gloo). Start it by torchrun."""

from __future__ import annotations

import os
import sys
from typing import Any

import small


def main() -> None:
    args = small.arguments(__doc__ or "").parse_args()
    if "LOCAL_RANK" not in os.environ:
        sys.exit(f"{sys.argv[0]}: LOCAL_RANK is not set; start it by torchrun")
    torch = small.import_torch()
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl" if gpu else "gloo")
    try:
        train(torch, device, args.epochs, args.batch_size, args.learning_rate, args.seed)
    finally:
        torch.distributed.destroy_process_group()


def train(
    torch: Any, device: Any, epochs: int, batch_size: int, learning_rate: float, seed: int
) -> None:
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    if rank == 0:
        print(f"training on {ranks} x {device.type}", flush=True)
    torch.manual_seed(seed)
    pixels, labels = (part.to(device) for part in small.images(torch, seed))
    model = torch.nn.parallel.DistributedDataParallel(
        small.network(torch).to(device), device_ids=[device] if device.type == "cuda" else None
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    for epoch in range(epochs):
        total = torch.zeros(1, device=device)
        for whole in small.batches(torch, len(labels), batch_size * ranks, seed=epoch):
            mine = whole[rank::ranks].to(device)
            loss = torch.nn.functional.cross_entropy(model(pixels[mine]), labels[mine])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(mine)
        torch.distributed.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch + 1}/{epochs}  loss {total.item() / len(labels):.4f}", flush=True)


if __name__ == "__main__":
    main()
