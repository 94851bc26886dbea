"""Train on a number of GPUs (or CPUs) that may change. Start it by radrun, or by python."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import small

from radrm import elastic


def main() -> None:
    parser = small.arguments(__doc__ or "")
    parser.add_argument("--micro-batch", type=int, help="samples at a time on one GPU")
    args = parser.parse_args()
    torch = small.import_torch()
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", torch.cuda.current_device()) if gpu else torch.device("cpu")
    if ranks > 1:
        torch.distributed.init_process_group("nccl" if gpu else "gloo")
    try:
        train(torch, device, ranks, args)
    finally:
        if ranks > 1:
            torch.distributed.destroy_process_group()


def train(torch: Any, device: Any, ranks: int, args: Any) -> None:
    torch.manual_seed(args.seed)
    model = small.network(torch).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate)
    data = elastic.ShardedDataset(
        torch.utils.data.TensorDataset(*small.images(torch, args.seed)),
        epochs=args.epochs,
        seed=args.seed,
    )
    saved = elastic.load()  # the last checkpoint: of this size or another
    if saved is not None:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    parallel = torch.nn.parallel.DistributedDataParallel(model) if ranks > 1 else model
    print(f"training on {ranks} x {device.type}", flush=True)
    epoch, loss = -1, None
    for pixels, labels in elastic.loader(
        data, global_batch=args.batch_size, micro_batch=args.micro_batch
    ):
        if data.epoch != epoch:
            epoch = data.epoch
            print(f"epoch {epoch + 1}/{args.epochs}", flush=True)
        # Of several micro-batches, gradients are averaged over the workers after the last one.
        waits = ranks > 1 and not elastic.last_part()
        with parallel.no_sync() if waits else contextlib.nullcontext():
            loss = torch.nn.functional.cross_entropy(parallel(pixels.to(device)), labels.to(device))
            (loss * elastic.weight()).backward()  # so the average is the mean of the global batch
        if elastic.last_part():
            optimizer.step()
            optimizer.zero_grad()
        if elastic.step(loss=loss):
            elastic.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    if loss is not None:
        print(f"done  loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
