"""`torch.profiler`: a trace without events."""

from contextlib import contextmanager
from types import SimpleNamespace


def _export(path):
    with open(path, "w") as file:
        file.write("{}")


@contextmanager
def profile():
    yield SimpleNamespace(export_chrome_trace=_export)
