"""Process groups that do not exist, and models that are spread over several GPUs.

This process is rank 0. The others wait or are never started: the communication of one process
changes nothing in its memory but DDP's buckets and DataParallel's copies (`parallel`).
"""

from __future__ import annotations

import os
from typing import Any

import parallel
import torch

_COLLECTIVES = (
    "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather",
    "scatter", "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single",
    "broadcast_object_list", "gather_object", "scatter_object_list", "send", "recv", "isend",
    "irecv", "barrier", "monitored_barrier", "all_reduce_coalesced", "_all_gather_base",
)  # fmt: skip


class _Work:
    """A communication that has ended."""

    def wait(self, *_: Any) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def get_future(self) -> _Work:
        return self


def begin(script: Any) -> None:
    _parallel_models(script)
    _processes(script)
    if torch.distributed.is_available():
        _group(script)


def _group(script: Any) -> None:
    distributed: Any = torch.distributed
    inner: Any = torch.distributed.distributed_c10d
    make = distributed.init_process_group

    def init_process_group(*args: Any, **kwargs: Any) -> None:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        rank = kwargs.get("rank", -1)
        rank = int(os.environ.get("RANK") or 0) if rank is None or rank < 0 else int(rank)
        if rank > 0:
            script.wait()
        size = kwargs.get("world_size", -1)
        if size is None or size < 1:
            size = int(os.environ.get("WORLD_SIZE") or script.gpus)
        make("fake", rank=0, world_size=int(size), store=FakeStore())

    def set_both(name: str, function: Any) -> None:
        for module in (distributed, inner):
            if hasattr(module, name):
                setattr(module, name, function)

    def communicate(*args: Any, **kwargs: Any) -> Any:
        at_once = not kwargs.get("async_op") and not (args and args[-1] is True)
        return None if at_once else _Work()

    def all_gather_object(objects: Any, obj: Any, *_: Any, **__: Any) -> None:
        objects[:] = [obj] * len(objects)

    set_both("init_process_group", init_process_group)
    for name in _COLLECTIVES:
        set_both(name, communicate)
    for name in ("isend", "irecv"):
        set_both(name, lambda *_, **__: _Work())
    set_both("all_gather_object", all_gather_object)
    set_both("is_nccl_available", lambda: True)
    set_both("get_backend", lambda group=None: "nccl")


def _parallel_models(script: Any) -> None:
    class DataParallel(parallel.DataParallel):
        def __init__(
            self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0
        ) -> None:
            gpus = len(device_ids) if device_ids else script.gpus
            super().__init__(module.to("cuda"), gpus)
            self.device_ids, self.dim = list(range(gpus)), dim
            self.output_device, self.src_device_obj = 0, torch.device("cuda", 0)
            if gpus > 1:
                script.parallel = "dp"

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            args, kwargs = parallel.on_gpu(args), parallel.on_gpu(kwargs)
            if self.gpus == 1:
                return self.module(*args, **kwargs)
            return super().forward(*args, **kwargs)

    class DistributedDataParallel(parallel.DistributedDataParallel):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            script.parallel = "ddp"

    nn: Any = torch.nn
    nn.DataParallel = nn.parallel.DataParallel = nn.parallel.data_parallel.DataParallel = (
        DataParallel
    )
    nn.parallel.DistributedDataParallel = DistributedDataParallel
    nn.parallel.distributed.DistributedDataParallel = DistributedDataParallel
    # Its kernels need the other processes; a plain layer keeps as much for its backward pass.
    nn.SyncBatchNorm.convert_sync_batchnorm = classmethod(lambda cls, module, *_: module)


def _processes(script: Any) -> None:
    """Run process 0 of `mp.spawn` here, and start no other."""
    multiprocessing: Any = torch.multiprocessing

    def spawn(fn: Any, args: Any = (), nprocs: int = 1, *_: Any, **__: Any) -> Any:
        os.environ.setdefault("WORLD_SIZE", str(nprocs))
        fn(0, *args)
        return _Spawned()

    multiprocessing.spawn = spawn


class _Spawned:
    """The processes of `mp.spawn(join=False)`, which have ended."""

    def join(self, timeout: float | None = None) -> bool:
        return True
