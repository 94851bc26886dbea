"""Several sources as one: which feed serves a device, and what is said when none does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.config import Config, MpsConfig, ReadingsConfig, contradictions, parse_config
from radrm.core.records import Device, Instant, Reading
from radrm.core.words import DeviceKind
from radrm.errors import BadConfig, DeviceError
from radrm.host.gpus import nvml
from radrm.host.gpus import readings as module
from radrm.host.gpus.readings import BUSY, ZEROS, Readings, mig_ids_of, open_gpus
from radrm.host.gpus.source import OwnerOf, Sample
from radrm.host.mps.service import MpsService
from radrm.host.mps.source import MpsGpus

AT = Instant(10.0, 1000.0)
GPUS = tuple(Device(f"GPU-{n}", n, "test", 1000) for n in range(2))
NAMES = [device.uuid for device in GPUS]


class Base:
    """Reads all devices alike, coarsely."""

    name = "base"

    def __init__(self) -> None:
        self.listed = GPUS
        self.utilization: float | None = 0.2
        self.power_w: float | None = None
        self.error: str | None = None
        self.changed = False
        self.acknowledged: list[str] = []
        self.closed = False

    def devices(self) -> tuple[Device, ...]:
        return self.listed

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        if self.error:
            return tuple(Reading(device=u, at=at, error=self.error) for u in uuids)
        return tuple(
            Reading(
                device=u,
                at=at,
                used_mib=5,
                smact=self.utilization,
                smact_source="coarse",
                smact_coarse=self.utilization is not None,
                power_w=self.power_w,
            )
            for u in uuids
        )

    def acknowledge(self, uuid: str) -> None:
        self.acknowledged.append(uuid)

    def close(self) -> None:
        self.closed = True


class Feed:
    """Says what the test sets."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[tuple[str, ...]] = []
        self.samples: dict[str, Sample] = {}
        self.troubles: dict[str, str] = {}
        self.closed = False

    def gives(self, smact: float, age_s: float = 0.0, power_w: float | None = None) -> None:
        self.samples = dict.fromkeys(NAMES, Sample(smact, age_s, power_w))
        self.troubles = {}

    def fails(self, why: str) -> None:
        self.troubles = dict.fromkeys(NAMES, why)

    def start(self, devices: Sequence[Device]) -> None:
        self.asked.append(tuple(device.uuid for device in devices))

    def latest(self, uuid: str) -> Sample | None:
        return self.samples.get(uuid)

    def trouble(self, uuid: str) -> str | None:
        return self.troubles.get(uuid)

    def close(self) -> None:
        self.closed = True


class World:
    def __init__(self, required: bool = False, feeds: tuple[str, ...] = ("one", "two")) -> None:
        self.base = Base()
        self.feeds = [Feed(name) for name in feeds]
        self.readings = Readings(self.base, self.feeds, required=required)
        self.readings.devices()

    def read(self) -> Reading:
        first, _ = self.readings.read(NAMES, AT, lambda pid: None)
        return first


def test_the_first_feed_that_delivers_serves_and_no_other_is_asked() -> None:
    world = World()
    one, two = world.feeds
    one.gives(0.5, power_w=70.0)
    reading = world.read()
    assert (reading.smact, reading.smact_source, reading.smact_coarse) == (0.5, "one", False)
    assert (reading.power_w, reading.used_mib) == (70.0, 5)
    assert two.asked == []
    world.base.power_w = 99.0
    assert world.read().power_w == 99.0, "the base knows better"


def test_the_next_one_is_asked_where_the_first_does_not_serve() -> None:
    world = World()
    one, two = world.feeds
    one.gives(0.5)
    one.troubles["GPU-1"] = "not this one"
    two.gives(0.25)
    found = world.readings.read(NAMES, AT, lambda pid: None)
    assert [r.smact_source for r in found] == ["one", "two"]
    assert two.asked == [("GPU-1",)]


def test_without_any_it_is_coarse_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.feeds[0].fails("one is not installed")
    world.feeds[1].fails("two is not there")
    for _ in range(3):
        reading = world.read()
        assert (reading.smact, reading.smact_coarse, reading.smact_trouble) == (0.2, True, None)
    said = [r.getMessage() for r in caplog.records if "GPU-0" in r.getMessage()]
    assert len(said) == 1
    assert "one is not installed; two is not there" in said[0]


def test_a_feed_gets_time_for_its_first_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", {"one": 1e9})
    world = World()
    assert world.read().smact_coarse
    assert world.feeds[1].asked == []
    monkeypatch.setattr(module, "PATIENCE_S", {"one": -1.0, "two": 1e9})
    assert world.read().smact_coarse
    assert world.feeds[1].asked, "patience has an end"


@pytest.mark.parametrize("required", [True, False])
def test_one_that_served_and_fails_takes_the_sharing_with_it(required: bool) -> None:
    world = World(required=required)
    one, two = world.feeds
    two.fails("two is not there")
    one.gives(0.5)
    world.read()
    one.fails("dcgmi has ended")
    reading = world.read()
    assert (reading.smact, reading.smact_coarse, reading.smact_source) == (None, False, None)
    assert reading.smact_trouble == "dcgmi has ended"
    assert (reading.error, reading.used_mib) == (None, 5), "all else is read as before"
    two.gives(0.25)
    assert world.read().smact_source == "two"
    one.gives(0.5)
    assert world.read().smact_source == "one"


def test_silence_is_no_activity_but_trouble() -> None:
    world = World(feeds=("one",))
    (one,) = world.feeds
    one.gives(0.5, age_s=5.0)
    assert world.read().smact == 0.5
    one.gives(0.5, age_s=7.3)
    assert world.read().smact_trouble == "one has given nothing for 7 s"


def test_a_source_that_was_chosen_is_the_only_one() -> None:
    world = World(required=True, feeds=("one",))
    assert world.read().smact_trouble == "one does not measure it"
    world.feeds[0].fails("dcgmi is not installed")
    assert world.read().smact_trouble == "dcgmi is not installed"
    assert (
        World(required=True, feeds=()).read().smact_trouble == "its SM activity is not measured yet"
    )


def test_zero_activity_while_kernels_run_is_not_believed() -> None:
    world = World(feeds=("dcgm",))
    (feed,) = world.feeds
    feed.gives(0.0)
    world.base.utilization = BUSY
    found = [world.read() for _ in range(ZEROS)]
    assert [r.smact for r in found] == [0.0] * (ZEROS - 1) + [None]
    assert "restart nv-hostengine" in str(found[-1].smact_trouble)
    feed.gives(0.003)
    assert world.read().smact == 0.003
    feed.gives(0.0)
    for utilization in (0.0, None):
        world.base.utilization = utilization
        assert [world.read().smact for _ in range(2 * ZEROS)] == [0.0] * 2 * ZEROS


def test_a_device_that_cannot_be_read_is_left_alone() -> None:
    world = World()
    world.feeds[0].gives(0.5)
    world.base.error = "the GPU is lost"
    reading = world.read()
    assert (reading.error, reading.smact, reading.smact_trouble) == ("the GPU is lost", None, None)


def test_devices_that_change_are_told_to_the_feeds() -> None:
    world = World()
    one, two = world.feeds
    one.fails("no")
    world.read()
    assert (one.asked, two.asked[-1]) == ([("GPU-0", "GPU-1")], ("GPU-0", "GPU-1"))
    world.base.listed = GPUS[1:]
    world.readings.devices()
    assert (one.asked[-1], two.asked[-1]) == (("GPU-1",), ("GPU-1",))
    asked = len(one.asked)
    world.readings.devices()
    assert len(one.asked) == asked, "nothing has changed"


def test_the_rest_is_the_bases() -> None:
    world = World()
    world.base.changed = True
    assert world.readings.changed
    assert world.readings.name == "base"
    world.readings.acknowledge("GPU-0")
    assert world.base.acknowledged == ["GPU-0"]
    world.readings.close()
    assert world.base.closed
    assert all(feed.closed for feed in world.feeds)


STATES = st.sampled_from(["gives", "fails", "silent", "nothing"])


@given(st.lists(st.tuples(STATES, STATES), max_size=12), st.booleans())
def test_what_is_not_measured_now_is_never_a_number_that_counts(
    steps: list[tuple[str, str]], required: bool
) -> None:
    """A precise number is a fresh one; after it, there is a fresh one or trouble."""
    world = World(required=required)
    served = False
    for states in steps:
        for feed, state in zip(world.feeds, states, strict=True):
            feed.samples, feed.troubles = {}, {}
            if state == "fails":
                feed.fails("broken")
            elif state != "nothing":
                feed.gives(0.5, age_s=0.0 if state == "gives" else 60.0)
        reading = world.read()
        measured = reading.smact is not None and not reading.smact_coarse
        assert measured == ("gives" in states)
        served = served or measured
        if not measured:
            assert (reading.smact_trouble is not None) == (served or required)
            assert reading.smact is None or not (served or required)


# ------------------------------------------------------------------ how it is configured


def test_the_configuration_as_it_is_written() -> None:
    text = '[readings]\nsource = "nvml"\nsmact = "dcgm"\ndcgm_exporter = "http://[::1]:9/m"'
    config = parse_config(text, "test")
    assert config.readings == ReadingsConfig("nvml", "dcgm", "http://[::1]:9/m")
    assert parse_config("", "test").readings == ReadingsConfig()
    assert Config().with_set("readings.smact=gpm").readings.smact == "gpm"


@pytest.mark.parametrize(
    "line, words",
    [
        ('source = "nvlm"', "did you mean 'nvml'"),
        ('smact = "dcgmi"', "did you mean 'dcgm'"),
        ("smact = 3", "must be one of auto, gpm"),
        ('dcgm = "x"', "unknown key 'readings.dcgm'"),
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
        config = Config().with_set(f"readings.dcgm_exporter={json.dumps(text)}")
    except BadConfig:
        return
    assert urlsplit(config.readings.dcgm_exporter).hostname in ("127.0.0.1", "localhost", "::1")


@pytest.mark.parametrize(
    "settings, words",
    [
        (["readings.smact=gpm", "readings.source=nvidia-smi"], "cannot read GPM"),
        (["readings.smact=utilization"], "use_coarse_smact"),
        (["readings.smact=utilization", "core.use_coarse_smact=true"], None),
        (["readings.smact=dcgm", "readings.source=nvidia-smi"], None),
    ],
)
def test_what_does_not_go_together(settings: list[str], words: str | None) -> None:
    config = Config()
    for setting in settings:
        config = config.with_set(setting)
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
    monkeypatch.setenv("PATH", f"{Path(__file__).parents[1] / 'standins' / 'bin'}:/usr/bin:/bin")


@pytest.mark.parametrize("source", ["auto", "nvidia-smi"])
def test_nvidia_smi_is_the_last_resort(
    source: str, no_nvml: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi(tmp_path, monkeypatch)
    gpus = open_gpus(ReadingsConfig(source=source, smact="utilization"))
    assert gpus.name == "nvidia-smi"
    assert [device.uuid for device in gpus.devices()] == ["GPU-a"]
    gpus.close()


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
    monkeypatch.setattr(module, "_base", lambda source: base)
    gpus = open_gpus(ReadingsConfig(smact=smact))
    assert [feed.name for feed in gpus._feeds] == feeds
    assert gpus._required == required


def test_gpm_goes_with_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml

    base = nvml.NvmlGpus(pynvml)
    monkeypatch.setattr(module, "_base", lambda source: base)
    assert [f.name for f in open_gpus(ReadingsConfig())._feeds] == ["gpm", "dcgm", "dcgm-exporter"]


def test_ids_of_mig_instances() -> None:
    base = Base()
    old = "MIG-GPU-a810a1fc-9f46/7/0"
    assert mig_ids_of(base)(old) == (7, 0)
    assert mig_ids_of(base)("MIG-1111") is None

    def place(uuid: str) -> SimpleNamespace:
        if uuid != "MIG-1111":
            raise ValueError(uuid)
        return SimpleNamespace(instance=(3, 1))

    base.place = place  # type: ignore[attr-defined]
    assert [mig_ids_of(base)(u) for u in (old, "MIG-1111", "MIG-2")] == [(7, 0), (3, 1), None]


# ------------------------------------------------------------------ in another one's place


def test_one_in_anothers_place_knows_what_was_served_and_what_the_base_had_heard() -> None:
    heard: list[object] = []
    old, new = World(), World()
    old.feeds[0].gives(0.5)
    assert old.read().smact == 0.5
    new.base.take_over = heard.append  # type: ignore[attr-defined]
    module.take_over(new.readings, old.readings)
    assert heard == [old.base]
    assert new.read().smact_trouble is not None, "not coarsely: it was measured before"
    new.feeds[0].gives(0.4)
    assert new.read().smact == 0.4


def test_what_was_known_goes_to_its_own_kind_only() -> None:
    class Other(Base):
        pass

    old, new = World(), World()
    new.base = new.readings.base = Other()
    new.base.take_over = lambda other: pytest.fail("of another kind")  # type: ignore[attr-defined]
    module.take_over(new.readings, old.readings)


def test_through_the_source_that_adds_mps() -> None:
    old, new = World(), World()
    heard: list[object] = []
    new.base.take_over = heard.append  # type: ignore[attr-defined]
    service = MpsService(MpsConfig(), "/run/radrm")
    module.take_over(MpsGpus(new.readings, service), MpsGpus(old.readings, service))
    assert heard == [old.base]


# ------------------------------------------------------------------ MIG instances


@pytest.mark.parametrize("required", [True, False])
def test_of_an_instance_whose_load_nobody_knows_nothing_is_said(
    required: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It has one job at a time: there is nobody who could not be put beside it."""
    world = World(required=required)
    world.base.listed = tuple(replace(device, kind=DeviceKind.MIG) for device in GPUS)
    world.readings.devices()
    for feed in world.feeds:
        feed.fails("no counters under MIG")
    caplog.clear()
    world.read()
    assert caplog.text == ""
    world.base.listed = GPUS
    world.readings.devices()
    world.read()
    assert caplog.text.count("GPU 0 (GPU-0)") == 1
