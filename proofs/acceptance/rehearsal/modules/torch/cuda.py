"""`torch.cuda`."""

import os
from contextlib import contextmanager
from types import SimpleNamespace

from .work import MIB, context

_UNIT = 1 / 132


class Stream:
    pass


_now = []


@contextmanager
def stream(one):
    _now.append(one)
    yield
    _now.pop()


def is_available():
    return device_count() > 0


def device_count():
    return len([name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name])


def synchronize():
    context().synchronize()


def mem_get_info():
    found = context()
    return found.free_mib() * MIB, found.total_mib * MIB


def max_memory_reserved():
    return context().most


def get_device_properties(device):
    return SimpleNamespace(multi_processor_count=132)


def _sleep(cycles):
    context().enqueue(cycles / 1.8e9, _UNIT, stream=id(_now[-1]) if _now else 0)
