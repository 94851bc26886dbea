"""The simulated driver's state, with time passed in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.simulated.model import (
    DeviceLost,
    Model,
    ModelError,
    NoRoom,
    Reader,
    visible_devices,
)
from radrm.simulated.spec import parse

DEVICES = parse("sim:2xA100-40GB")
A, B = (simulated.device.uuid for simulated in DEVICES)


@pytest.fixture
def model():
    return Model(DEVICES, 0.0)


def attach(model, key, visible=None, gpus=1, smact=0.6, mps=True, **rest):
    model.attach(key, 1000 + key, visible, gpus, smact, mps=mps, **rest)


def read(model, now_s, reader=None, uuid=A):
    return model.read([uuid], reader or Reader(), now_s)[0]


# ------------------------------------------------------------------ memory


def test_memory_is_held_until_its_owner_goes(model):
    attach(model, 1)
    assert model.alloc(1, 12000) is None
    assert model.alloc(1, 3000) is None
    assert read(model, 1.0).processes == ((1001, 15000),)
    model.free(1, 5000)
    assert model.used_mib(A) == 10000
    model.detach(1, 2.0)
    assert read(model, 2.0).used_mib == 0
    assert read(model, 2.0).processes == ()


def test_no_room_says_what_there_is_and_takes_nothing(model):
    attach(model, 1)
    attach(model, 2)
    assert model.alloc(1, 30000) is None
    assert model.alloc(2, 10537) == NoRoom(0, 10537, 10536, 40536, 0)
    assert model.alloc(2, 10536) is None


def test_several_devices_get_all_or_nothing(model):
    attach(model, 1, visible="1")
    model.alloc(1, 30000)
    attach(model, 2, gpus=2)
    refused = model.alloc(2, 20000)
    assert (refused.position, refused.free_mib) == (1, 10536)
    assert model.used_mib(A) == 0


def test_a_cap_holds_on_each_device(model):
    attach(model, 1, gpus=2, cap_mib=4096)
    assert model.alloc(1, 4000) is None
    assert model.alloc(1, 97).free_mib == 96
    assert model.alloc(1, 96) is None


def test_unmanaged_use_is_used_and_nobodys():
    model = Model(parse("sim:1xA100-40GB,unmanaged@0=8000"), 0.0)
    reading = read(model, 0.0)
    assert (reading.used_mib, reading.processes) == (8000, ())
    assert model.free_mib(A) == 32536


# ------------------------------------------------------------------ work


def test_alone_work_passes_like_time_once_started(model):
    attach(model, 1)
    assert model.work(1, 5.0) == (0.0, 0.0)
    model.start(1, 5.0)
    assert model.work(1, 15.0) == (10.0, 1.0)


def test_neighbours_slow_one_another_while_they_are_there(model):
    attach(model, 1)
    attach(model, 2)
    model.start(1, 0.0)
    model.start(2, 10.0)
    done_s, speed = model.work(1, 20.0)
    assert 0.5 < speed < 1.0
    assert done_s == pytest.approx(10 + 10 * speed)
    model.detach(2, 20.0)
    assert model.work(1, 30.0) == (pytest.approx(done_s + 10), 1.0)


def test_mps_clients_are_faster_than_timesliced_ones():
    def speed(*mps):
        model = Model(DEVICES, 0.0)
        for key, flag in enumerate(mps):
            attach(model, key, mps=flag)
            model.start(key, 0.0)
        return model.work(0, 1.0)[1]

    assert speed(True, True) > speed(True, False) == speed(False, False)


def test_small_batches_starve(model):
    attach(model, 1, family="cnn", batch_size=32)
    attach(model, 2, family="transformer", batch_size=32)
    model.start(1, 0.0)
    model.start(2, 0.0)
    assert model.work(1, 1.0)[1] < model.work(2, 1.0)[1]


# ------------------------------------------------------------------ readings


def test_a_reading_is_the_mean_since_the_readers_last(model):
    often, rarely = Reader(), Reader()
    read(model, 0.0, often)
    read(model, 0.0, rarely)
    attach(model, 1, smact=0.6)
    model.start(1, 10.0)
    assert read(model, 10.0, often).smact == 0.0
    assert read(model, 20.0, often).smact == pytest.approx(0.6)
    assert read(model, 20.0, rarely).smact == pytest.approx(0.3)
    assert read(model, 20.0).smact == pytest.approx(0.6)  # a first reading: as it is now


def test_power_and_energy_agree(model):
    reader = Reader()
    first = read(model, 0.0, reader)
    assert first.power_w == 58.0
    attach(model, 1, smact=0.52)
    model.start(1, 10.0)
    second = read(model, 20.0, reader)
    assert second.energy_j == pytest.approx(10 * 58 + 10 * 216)
    assert second.power_w == pytest.approx((58 + 216) / 2)


def test_a_mig_instance_reads_its_own_activity():
    model = Model(parse("sim:1xA100-40GB:3g.20gb+4g.20gb"), 0.0)
    uuids = list(model.devices)
    attach(model, 1, visible=uuids[0], smact=0.6)
    model.start(1, 0.0)
    busy, idle = model.read(uuids, Reader(), 1.0)
    assert (busy.smact, idle.smact) == (pytest.approx(1.0), 0.0)
    assert model.work(1, 7.0)[0] == pytest.approx(5.0)


def test_an_unknown_device_is_an_error_in_its_place(model):
    known, unknown = model.read([A, "GPU-none"], Reader(), 0.0)
    assert known.error is None
    assert unknown.error


# ------------------------------------------------------------------ failure


def test_a_failed_device_stands_still_until_it_is_healed(model):
    attach(model, 1, visible=A)
    attach(model, 2, visible=B)
    model.start(1, 0.0)
    model.start(2, 0.0)
    model.fail(A, "GPU is lost", 10.0)
    assert read(model, 11.0).error == "GPU is lost"
    for refused in (lambda: model.alloc(1, 1), lambda: model.work(1, 11.0)):
        with pytest.raises(DeviceLost, match="GPU is lost"):
            refused()
    assert model.work(2, 20.0)[0] == 20.0
    model.heal(A, 20.0)
    assert model.work(1, 25.0)[0] == 15.0


@pytest.mark.parametrize(
    "act",
    [
        lambda model: model.alloc(9, 1),
        lambda model: model.work(9, 1.0),
        lambda model: attach(model, 1, gpus=3),
        lambda model: attach(model, 1, visible=""),
        lambda model: model.fail("GPU-none", "x", 1.0),
    ],
)
def test_what_cannot_be_done_is_refused(model, act):
    with pytest.raises(ModelError):
        act(model)


def test_one_client_is_one_context(model):
    attach(model, 1)
    with pytest.raises(ModelError):
        attach(model, 1)


# ------------------------------------------------------------------ visible devices


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, (A, B)),
        (f"{B},{A}", (B, A)),
        ("1, 0", (B, A)),
        (B[:12], (B,)),
        ("", ()),
        ("-1", ()),
        ("0,7,1", (A,)),
        ("0,0", (A,)),
        ("GPU-", ()),
        ("nonsense", ()),
    ],
)
def test_visible_devices_are_read_as_cuda_does(visible, expected):
    assert visible_devices([m.device for m in DEVICES], visible) == expected


def test_a_process_sees_one_mig_instance_or_whole_gpus():
    mixed = [m.device for m in parse("sim:1xA100-40GB:3g.20gb+4g.20gb,1xA100-40GB")]
    assert visible_devices(mixed, None) == (mixed[0].uuid,)
    assert visible_devices(mixed, "2,0") == (mixed[2].uuid,)


# ------------------------------------------------------------------ what always holds

ACTS = st.lists(
    st.tuples(
        st.sampled_from(["attach", "start", "alloc", "free", "detach", "wait"]),
        st.integers(0, 4),
        st.integers(1, 30000),
    ),
    max_size=40,
)


@given(ACTS)
def test_no_history_overfills_a_device_or_makes_work_from_nothing(acts):
    model, now_s, reader = Model(DEVICES, 0.0), 0.0, Reader()
    for act, key, amount in acts:
        try:
            if act == "attach":
                attach(model, key, gpus=1 + key % 2, smact=0.5 + key / 10)
            elif act == "start":
                model.start(key, now_s)
            elif act in ("alloc", "free"):
                getattr(model, act)(key, amount)
            elif act == "detach":
                model.detach(key, now_s)
            else:
                now_s += amount / 100
        except ModelError:
            pass
        for reading in model.read([A, B], reader, now_s):
            assert 0 <= reading.used_mib <= 40536
            assert sum(mib for _, mib in reading.processes) == reading.used_mib
            assert 0 <= reading.smact <= 1
            assert 58 - 1e-6 <= reading.power_w <= 278 + 1e-6
        for key in model.contexts:
            assert 0 <= model.work(key, now_s)[0] <= now_s + 1e-6
