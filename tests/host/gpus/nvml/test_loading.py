"""RADRM_NVML_LIBRARY: which library is loaded, and which one is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pynvml
import pytest

from radrm.errors import DeviceError
from radrm.host.gpus.nvml import find
from radrm.host.gpus.nvml import library as loading
from radrm.host.gpus.nvml.library import query
from tests.standins.nvml_library import Nvml

ROOT, USER = 0, 1000


@pytest.fixture
def named(nvml_driver: Nvml, monkeypatch: pytest.MonkeyPatch) -> Nvml:
    """A driver whose library nothing but the variable names; `pynvml` has loaded none yet."""
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlLib_refcount", 0)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    for name, value in nvml_driver.environment.items():
        if name != "LD_LIBRARY_PATH":
            monkeypatch.setenv(name, value)
    monkeypatch.setenv(loading.VARIABLE, str(nvml_driver.library))
    monkeypatch.setattr(loading, "_fault", lambda path: None)  # it lies in a temporary folder
    return nvml_driver


def test_the_named_library_is_read(named: Nvml) -> None:
    gpu = named.gpu()
    found = find()
    assert found.gpus is not None, found.reason
    assert [device.uuid for device in found.gpus.devices()] == [gpu]
    found.gpus.close()


def test_a_single_question_is_asked_of_it_too(named: Nvml) -> None:
    gpu = named.gpu(compute_mode=3)
    assert query(lambda nvml, handle: nvml.nvmlDeviceGetComputeMode(handle), gpu) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's processes are that careful")
def test_root_does_not_load_what_others_could_change(
    named: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    named.gpu()
    monkeypatch.undo()
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setenv(loading.VARIABLE, str(named.library))
    found = find()
    assert found.gpus is None
    assert f"{loading.VARIABLE}={named.library}: " in str(found.reason)
    assert "what root would run" in str(found.reason)
    assert pynvml.nvmlLib is None


def test_what_is_refused(tmp_path: Path) -> None:
    library = tmp_path / "libnvidia-ml.so.1"
    library.write_bytes(b"\x7fELF")
    path = str(library)
    assert "absolute path" in str(loading.refusal("libnvidia-ml.so.1", USER))
    assert "No such file" in str(loading.refusal(path + "0", USER))
    assert "not a file" in str(loading.refusal(str(tmp_path), USER))
    assert loading.refusal(path, USER) is None, "it runs with that user's rights only"
    refused = str(loading.refusal(path, ROOT))
    assert "is writable by all" in refused and "move the library" in refused, "it is in a /tmp"
    assert loading.refusal(path, ROOT, lambda path: None) is None


@pytest.mark.parametrize(
    ("text", "words"), [(b"no library", "cannot be loaded"), (None, "it is no NVML library")]
)
def test_what_is_no_nvml_library(
    text: bytes | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "libnvidia-ml.so.1"
    if text is None:
        library = _libc()
    else:
        library.write_bytes(text)
    monkeypatch.setenv(loading.VARIABLE, str(library))
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(loading, "_fault", lambda path: None)
    with pytest.raises(DeviceError, match=words) as caught:
        loading.load()
    assert "\n" not in str(caught.value)
    assert pynvml.nvmlLib is None


def _libc() -> Path:
    """The C library that this process has loaded."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split()[-1]
        if "/libc.so" in path or "/libc-" in path or "/ld-musl" in path:
            return Path(path)
    pytest.skip("no C library to take for another one")
