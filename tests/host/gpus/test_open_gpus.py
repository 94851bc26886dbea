"""Which sources and feeds the configuration opens, and which configurations are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.config import Config, ReadingsConfig, contradictions, parse_config, with_set
from radrm.errors import BadConfig, DeviceError
from radrm.host.gpus import nvml
from radrm.host.gpus import readings as module
from radrm.host.gpus.nvml import library as loading
from radrm.host.gpus.readings import SmActivity, open_gpus
from tests.host.gpus.sources import Base
from tests.paths import BIN

# ------------------------------------------------------------------ how it is configured


def test_the_configuration_as_it_is_written() -> None:
    text = '[readings]\nsource = "nvml"\nsmact = "dcgm"\ndcgm_exporter = "http://[::1]:9/m"'
    config = parse_config(text, "test")
    assert config.readings == ReadingsConfig("nvml", "dcgm", "http://[::1]:9/m")
    assert parse_config("", "test").readings == ReadingsConfig()
    assert with_set(Config(), "readings.smact=gpm").readings.smact == "gpm"


@pytest.mark.parametrize(
    "line, words",
    [
        ('source = "nvlm"', "did you mean 'nvml'"),
        ('smact = "dcgmi"', "did you mean 'dcgm'"),
        ("smact = 3", "must be one of auto, gpm"),
        ('dcgm = "x"', "unknown key 'readings.dcgm'"),
        ("interval_s = 0.1", "must be a number from 0.2 to 10"),
        ("interval_s = 11", "must be a number from 0.2 to 10"),
        ("interval_s = true", "must be a number from 0.2 to 10"),
        *(
            (f"dcgm_exporter = {value}", "an http address of this machine")
            for value in (
                "9400",
                '""',
                '"127.0.0.1:9400"',
                '"https://127.0.0.1/metrics"',
                '"http://10.0.0.7:9400/metrics"',
                '"http://example.com/metrics"',
                '"http://127.0.0.1.example.com/"',
                '"http://127.0.0.1@example.com/"',
                '"http://me@127.0.0.1/"',
                '"http://127.0.0.1:99999/"',
                '"http://[::1/"',
                '"file:///etc/passwd"',
                '"http://127.0.0.1/a\\r\\nHost: b"',
            )
        ),
    ],
)
def test_a_configuration_that_cannot_be_used(line: str, words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        parse_config(f"[readings]\n{line}", "test")


@given(st.text())
def test_any_address_is_this_machine_or_an_error(text: str) -> None:
    try:
        config = with_set(Config(), f"readings.dcgm_exporter={json.dumps(text)}")
    except BadConfig:
        return
    assert urlsplit(config.readings.dcgm_exporter).hostname in ("127.0.0.1", "localhost", "::1")


@pytest.mark.parametrize(
    "settings, words",
    [
        (["readings.smact=gpm", "readings.source=nvidia-smi"], "cannot read GPM"),
        (["readings.smact=utilization"], None),
        (["readings.smact=dcgm", "readings.source=nvidia-smi"], None),
    ],
)
def test_what_does_not_go_together(settings: list[str], words: str | None) -> None:
    config = Config()
    for setting in settings:
        config = with_set(config, setting)
    found = contradictions(config)
    assert (found == []) if words is None else (words in found[0])


# ------------------------------------------------------------------ putting it together


@pytest.fixture
def no_nvml(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(nvml, "find", lambda: nvml.Found(None, "no driver is loaded"))
    yield


def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str = "ok") -> None:
    """Put the stand-in of nvidia-smi on the path."""
    state = tmp_path / "smi.json"
    state.write_text(json.dumps({"gpus": [{"uuid": "GPU-a"}], "mode": mode}))
    monkeypatch.setenv("STANDIN_SMI", str(state))
    monkeypatch.setenv("PATH", f"{BIN}:/usr/bin:/bin")


@pytest.mark.parametrize("source", ["auto", "nvidia-smi"])
def test_nvidia_smi_is_the_last_resort(
    source: str, no_nvml: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi(tmp_path, monkeypatch)
    gpus = open_gpus(ReadingsConfig(source=source, smact="utilization"))
    assert gpus.name == "nvidia-smi"
    assert [device.uuid for device in gpus.devices()] == ["GPU-a"]
    gpus.close()


def test_nvidia_smi_does_not_replace_a_library_that_was_named(
    no_nvml: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi(tmp_path, monkeypatch)
    monkeypatch.setenv(loading.VARIABLE, "/opt/mock/libnvidia-ml.so.1")
    with pytest.raises(DeviceError) as caught:
        open_gpus(ReadingsConfig(source="auto"))
    assert str(caught.value) == "no driver is loaded"


@pytest.mark.parametrize(
    "source, words",
    [
        ("nvml", "^no driver is loaded$"),
        ("auto", "^no driver is loaded; nvidia-smi does not work here: NVIDIA-SMI has failed"),
    ],
)
def test_where_there_is_no_gpu_all_reasons_are_told(
    source: str, words: str, no_nvml: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi(tmp_path, monkeypatch, mode="failed")
    with pytest.raises(DeviceError, match=words):
        open_gpus(ReadingsConfig(source=source))


def activity(config: ReadingsConfig) -> SmActivity:
    first = open_gpus(config).stages[0]
    assert isinstance(first, SmActivity)
    return first


@pytest.mark.parametrize(
    "smact, feeds, required",
    [
        ("auto", ["dcgm", "dcgm-exporter"], False),
        ("gpm", [], True),
        ("dcgm", ["dcgm"], True),
        ("dcgm-exporter", ["dcgm-exporter"], True),
        ("utilization", [], False),
    ],
)
def test_the_feeds_are_those_that_are_configured(
    smact: str, feeds: list[str], required: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = Base()
    monkeypatch.setattr(module, "_source", lambda *_: base)
    found = activity(ReadingsConfig(smact=smact))
    assert [feed.name for feed in found.feeds] == feeds
    assert found.required == required


def test_nvidia_smi_prints_at_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def source(*, interval_s: float) -> Base:
        given.append(interval_s)
        return Base()

    monkeypatch.setattr(module, "NvidiaSmi", source)
    open_gpus(ReadingsConfig(source="nvidia-smi", smact="dcgm", interval_s=0.5))
    assert given == [0.5]


def test_gpm_goes_with_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml

    base = nvml.NvmlGpus(pynvml)
    monkeypatch.setattr(module, "_source", lambda *_: base)
    found = activity(ReadingsConfig())
    assert [feed.name for feed in found.feeds] == ["gpm", "dcgm", "dcgm-exporter"]
