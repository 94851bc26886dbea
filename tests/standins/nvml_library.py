"""The stand-in of libnvidia-ml.so.1 as fixtures: built once per test session.

The real `pynvml` runs against it. nvml/README.md says how, for tests of this process and
for daemons; nvml_state.py is what tests tell it with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CDLL
from pathlib import Path

import pynvml
import pytest

from tests.standins.nvml_state import (
    A100,
    H100,
    STATE_VARIABLE,
    NoCompiler,
    Nvml,
    compile_library,
)

__all__ = ["A100", "H100", "Nvml", "build"]


def build(folder: Path) -> Path:
    """Compile the library into `folder`; its path. Skips the test where there is no compiler."""
    try:
        return compile_library(folder)
    except NoCompiler as error:
        pytest.skip(str(error))


@contextmanager
def attached(driver: Nvml, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`pynvml` of this process as if newly imported, with `driver`'s library under it."""
    library = CDLL(str(driver.library))
    for name, value in driver.environment.items():
        if name != "LD_LIBRARY_PATH":  # the loader has read it when the process began
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(pynvml, "nvmlLib", library)
    monkeypatch.setattr(pynvml, "_nvmlLib_refcount", 0)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    try:
        yield
    finally:
        monkeypatch.delenv(STATE_VARIABLE)  # whatever hangs goes on
        library.stand_in_reset()


# ------------------------------------------------------------------ fixtures


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of a driver of today."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml_driver(nvml_library: Path, tmp_path: Path) -> Nvml:
    """A driver with no GPU yet, for other processes: give them its `environment`."""
    return Nvml(tmp_path / "nvml-state", nvml_library)


@pytest.fixture
def nvml(nvml_driver: Nvml, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nvml]:
    """A driver with no GPU yet, that `pynvml` of this process runs against too."""
    with attached(nvml_driver, monkeypatch):
        yield nvml_driver
