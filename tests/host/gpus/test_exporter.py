"""dcgm-exporter's page: what is read from it, when it is believed, and who serves it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import Device
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError
from radrm.host.gpus import exporter as module
from radrm.host.gpus.exporter import DcgmExporter, Pages, fetch, listeners, parse_metrics
from radrm.host.gpus.source import Sample
from radrm.host.gpus.stream import Backoff
from tests.standins.exporter import Exporter
from tests.waiting import wait_until

A, B = "GPU-aaaaaaaa-0000", "GPU-bbbbbbbb-0000"

PAGE = f"""\
# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="{A}",device="nvidia0",modelName="NVIDIA A100",pod=""}} 61.5
# HELP DCGM_FI_PROF_SM_ACTIVE The ratio of cycles an SM has at least 1 warp assigned.
# TYPE DCGM_FI_PROF_SM_ACTIVE gauge
DCGM_FI_PROF_SM_ACTIVE{{gpu="0",UUID="{A}",device="nvidia0",Hostname="dgx, \\"1\\""}} 0.354
DCGM_FI_PROF_SM_ACTIVE{{gpu="1",UUID="{B}",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7"}} 0.125
"""


def smact(page: str) -> dict[tuple[str, int | None], float]:
    return dict(parse_metrics(page).smact)


def line(value: str, labels: str = f'UUID="{A}"', name: str = "DCGM_FI_PROF_SM_ACTIVE") -> str:
    return f"{name}{{{labels}}} {value}\n"


# ------------------------------------------------------------------ the page


@pytest.mark.parametrize(
    "page, expected",
    [
        (line("1"), 1.0),
        (line("1.004"), 1.0),
        (line("0.5 1700000000000"), 0.5),
        (line("0.5", f'uuid="{A}"'), 0.5),
        (line("0.5", f' gpu = "0" , UUID="{A}" ,'), 0.5),
        (line("0.5", name="DCGM_FI_PROF_SM_ACTIVITY_RATIO"), 0.5),
        (line("0.25") + line("0.75") + line("0.5"), 0.75),
        (line("9223372036854775792"), None),  # DCGM's blank, 0x7ffffffffffffff0
        (line("140737488355328"), None),
        (line("1.294"), None),
        (line("0.5") + line("1.294"), None),
        (line("-0.1"), None),
        (line("NaN"), None),
        (line("+Inf"), None),
        (line("N/A"), None),
        (line("0.5", 'gpu="0"'), None),
        (line("0.5", f'UUID="{A}",GPU_I_ID="x"'), None),
        (line("0.5", name="DCGM_FI_PROF_SM_OCCUPANCY"), None),
        (line("0.5", name="DCGM_FI_PROF_SM_ACTIVE_MAX"), None),
        ("# " + line("0.5"), None),
        (line("0.5")[:-3], None),  # cut off: it would read 0
        (line("0.5").rstrip(), None),
        ("", None),
    ],
)
def test_what_is_believed(page: str, expected: float | None) -> None:
    assert smact(page).get((A, None)) == expected


@given(st.text(), st.integers(0, len(PAGE)))
def test_whatever_is_served_activity_is_a_ratio(text: str, cut: int) -> None:
    for page in (text, PAGE[:cut] + text + PAGE[cut:], line(text), line("0.5", text)):
        found = parse_metrics(page)
        assert all(0 <= value <= 1 for value in found.smact.values())
        assert not found.smact.keys() & found.wrong.keys()


# ------------------------------------------------------------------ when it is believed


def pages(*renewed: tuple[float, str]) -> Pages:
    made = Pages()
    for at_s, value in renewed:
        made.take(line(value), at_s)
    return made


def test_numbers_count_once_they_were_seen_to_be_renewed() -> None:
    place = (A, None)
    assert pages((0, "0.1")).latest(place, 1.0) is None, "how old is it?"
    assert pages((0, "0.1")).error(place, 1.0) is None, "not yet"
    known = pages((0, "0.1"), (1, "0.2"))
    assert known.latest(place, 2.5) == Sample(smact=0.2, age_s=1.5)
    assert known.error(place, 2.5) is None
    assert "takes 5.5 s or more to renew" in str(known.error(place, 6.5))


def test_a_page_that_says_the_same_is_the_old_one() -> None:
    known = pages((0, "0.1"), (1, "0.2"), (2, "0.2"), (3, "0.2"))
    assert known.latest((A, None), 4.0).age_s == 3.0


def test_one_that_is_renewed_every_30_s_never_counts() -> None:
    slow = pages((0, "0.1"), (30, "0.2"), (60, "0.3"))
    assert slow.latest((A, None), 61.0) is None
    assert "--collect-interval=1000" in str(slow.error((A, None), 61.0))


@pytest.mark.parametrize(
    "value, words",
    [("N/A", "add DCGM_FI_PROF_SM_ACTIVE"), ("1.3", "as 1.3, which is not in 0..1")],
)
def test_a_page_without_the_number_says_why(value: str, words: str) -> None:
    assert words in str(pages((0, "0.1"), (1, value)).error((A, None), 1.5))


# ------------------------------------------------------------------ who serves it


@pytest.fixture
def served() -> Iterator[Exporter]:
    server = Exporter(PAGE)
    yield server
    server.close()


def test_a_page_is_fetched(served: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:1")
    assert fetch(served.url) == PAGE
    assert fetch(served.url + "?collect[]=DCGM", trusting=False) == PAGE
    assert served.asked == ["/metrics", "/metrics?collect[]=DCGM"]


@pytest.mark.parametrize("status", [302, 404, 500])
def test_any_other_answer_is_none(served: Exporter, status: int) -> None:
    served.status = status
    with pytest.raises(DeviceError, match=str(status)):
        fetch(served.url)


def test_a_page_too_long_is_none(served: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_PAGE", 100)
    with pytest.raises(DeviceError, match="longer than"):
        fetch(served.url)


def test_nobody_and_somebody_who_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.1)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/metrics"
        with pytest.raises(DeviceError, match="no dcgm-exporter listens"):
            fetch(url)
        listening.listen()
        with pytest.raises(DeviceError, match="does not answer"):
            fetch(url)


def test_who_listens_is_the_kernels_word(served: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    assert listeners(served.port) == {os.geteuid()}
    monkeypatch.setattr(module, "listeners", lambda port: {1234})
    with pytest.raises(DeviceError, match="served neither by root nor by"):
        fetch(served.url, trusting=False)
    monkeypatch.setattr(module, "listeners", lambda port: set())
    with pytest.raises(DeviceError, match="served neither by root nor by"):
        fetch(served.url, trusting=False)
    assert served.asked == []
    assert fetch(served.url, trusting=True) == PAGE


# ------------------------------------------------------------------ the feed


def test_the_feed_follows_the_page(served: Exporter) -> None:
    parts = Device("MIG-7", 1, "MIG", 5000, kind=DeviceKind.MIG, parent=B, instance=(7, 0))
    backoff = Backoff(0.01, 0.05)
    feed = DcgmExporter(
        served.url,
        trusting=False,
        interval_s=0.01,
        backoff=backoff,
    )
    feed.start([Device(A, 0, "NVIDIA A100", 40960), parts])
    wait_until(lambda: len(served.asked) > 1, "the first page to have been read")
    served.page = PAGE.replace("61.5", "62.5")
    assert wait_until(lambda: feed.latest(A)).smact == 0.354
    assert feed.latest("MIG-7").smact == 0.125
    assert feed.error(A) is None
    assert (feed.latest("GPU-x"), feed.error("GPU-x")) == (None, None)
    served.status = 500
    assert "answers 500" in str(wait_until(lambda: feed.error(A)))
    served.status = 200
    wait_until(lambda: feed.error(A) is None)
    feed.close()


def test_a_table_of_sockets_that_no_kernel_writes_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = f"\n0: 0:24B8 0 0A 0 0 0 1{'9' * 5000}".encode()
    monkeypatch.setattr(module, "start_of", lambda path, most: row)
    assert len(listeners(0x24B8)) == 1
