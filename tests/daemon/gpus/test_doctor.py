"""`radrm doctor` beside a daemon on the small DGX of test_dgx: it says what the daemon knows."""

from __future__ import annotations

import json

import pytest

from tests.daemon.gpus.dgx import PLAIN, Dgx
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon


def said(server: Dgx) -> dict[str, tuple[str, str]]:
    found = json.loads(server.radrm("doctor", "--json").stdout)
    assert not [f for f in found if "could not be checked" in f["finding"]]
    return {f["check"]: (f["level"], f["finding"]) for f in found}


def test_it_says_what_the_daemon_knows(dgx: Dgx) -> None:
    dgx.begin()
    well = said(dgx)
    assert well["GPU health"] == ("ok", "all 6 are read and in order")
    assert well["MPS servers"] == ("ok", "GPU 1: up")
    dgx.dcgm("down")
    dgx.driver.xid(PLAIN, 79)
    client = dgx.client(8000)
    dgx.told(client, "ready")
    dgx.mps(fault=1, stuck=True)
    wait_until(lambda: dgx.gpu(PLAIN)["state"] == "unhealthy", "the Xid")
    wait_until(lambda: "fault" in [row["state"] for row in dgx.ask("mps")], "the fault")
    wait_until(lambda: all(g["smact_error"] for g in dgx.ask("gpus") if g["kind"] == "gpu"))
    ill = said(dgx)
    assert ill["GPU health"][0] == "fail" and "GPU 0: Xid 79" in ill["GPU health"][1]
    assert ill["MPS servers"][0] == "fail" and "GPU 1: " in ill["MPS servers"][1]
    assert ill["SM activity"][0] == "warn" and "dcgmi" in ill["SM activity"][1]
    assert "SM activity: GPU" in dgx.radrm("doctor").stdout
