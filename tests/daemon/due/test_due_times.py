"""Due times of a real daemon: read where they are typed, shown everywhere, edited while it runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.daemon.harness import DaemonHome

pytestmark = pytest.mark.daemon

NEW_YORK = ZoneInfo("America/New_York")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonHome]:
    """Its clock runs 100 times as fast as ours."""
    made = DaemonHome(Path(tmp_path_factory.mktemp("due")), gpus="sim:1xA100-40GB")
    made.environment["TZ"] = "Europe/Berlin"
    made.settings = ["deadlines.cost_per_hour=2"]
    made.start()
    made.environment["TZ"] = "America/New_York"
    yield made
    made.close()


def now_s(server: DaemonHome) -> float:
    return float(server.ask("ping")["now"])


def test_a_due_time_from_its_typing_to_the_end_of_the_job(server: DaemonHome) -> None:
    script = "#!/bin/sh\n#RAD --due='tomorrow 9:00' --weight=3 --collocation=exclusive\nsleep 999\n"
    file = server.file("due.rad", script)
    before_s = now_s(server)
    first = server.submit(str(file))
    document = server.wait_state(first, "RUNNING")
    due = datetime.fromtimestamp(document["due_at"], NEW_YORK)
    assert (due.hour, due.minute, document["weight"]) == (9, 0, 3.0)
    ahead = due.date() - datetime.fromtimestamp(before_s, NEW_YORK).date()
    assert ahead.days in (1, 2), "midnight may have passed between the two"
    second = server.submit("--due=+10h", "--duration=2h", "--collocation=exclusive", "--", "true")
    assert 9.5 * 3600 < server.job(second)["due_at"] - before_s < 12 * 3600

    header, *rows = server.radrm("status").stdout.splitlines()[1:]
    assert " DUE " in header and len(rows) == 2 and re.search(r"9:00", rows[0])
    card = server.radrm("status", str(first)).stdout
    assert re.search(r"due +\d{4}-\d\d-\d\d 09:00:00 \(in ", card)
    said = server.radrm("explain", str(second)).stdout
    assert re.search(r"cannot say when it ends: .*; due .*: it must start before ", said)
    assert (
        json.loads(server.radrm("explain", str(second), "--json").stdout)["job"]["needs_s"] == 7200
    )

    changed = server.radrm("edit", str(first), "--due=+1h", "--weight=2", "--time=1-00:00:00")
    assert changed.stdout == f"Changed job {first} (due)\n"
    assert 0 < server.job(first)["due_at"] - now_s(server) <= 3600
    warned = server.radrm("edit", str(second), "--due=+90m").stdout
    assert (
        "; warning: it is due in 1h" in warned
        and "needs about 2h00m, so it will be late by" in warned
    )
    server.radrm("edit", str(second), "--due=none")
    assert server.job(second)["due_at"] is None

    wrong = server.radrm("edit", str(second), "--due=2020-01-31 9:00")
    assert wrong.returncode == 2 and wrong.stderr.count("\n") == 1
    assert "--due: '2020-01-31 9:00' is over: " in wrong.stderr

    # What another client does not resolve is read in the zone of the daemon.
    (result,) = server.ask("edit", jobs=[str(second)], options={"due": "tomorrow 9:00"})
    assert result["error"] is None
    there = datetime.fromtimestamp(server.job(second)["due_at"], ZoneInfo("Europe/Berlin"))
    assert (there.hour, there.minute) == (9, 0)

    server.radrm("cancel", str(first), str(second))
    ended = server.wait_end(first)
    assert ended["late_s"] is None and ended["cost"] is None, "it brought no result"
    assert ended["expected_end_at"] is None


def test_a_warning_and_a_late_end(server: DaemonHome) -> None:
    done = server.radrm("submit", "--due=+1s", "--duration=1h", "--name=late", "--", "sleep", "0.5")
    assert "warning: late: it is due in " in done.stderr and "needs about 1h00m" in done.stderr
    found = re.search(
        r"Submitted job (\d+) \(late\), ticket \S+, run time 1h00m, due \S+\n", done.stdout
    )
    ended: dict[str, Any] = server.wait_end(int(found[1]))
    assert ended["late_s"] == pytest.approx(ended["ended_at"] - ended["due_at"])
    assert ended["cost"] == pytest.approx(2.0 * ended["late_s"] / 3600) and ended["cost"] > 0
    assert ", late by " in server.radrm("status", found[1]).stdout
    assert re.search(r"due .*: late by ", server.radrm("explain", found[1]).stdout)
    assert re.search(r" late \d+", server.radrm("status", "--all").stdout)


def test_the_due_time_of_an_array_is_that_of_each_element(server: DaemonHome) -> None:
    script = "#!/bin/sh\n#RAD --due=+3h --array=0-2 --hold\ntrue\n"
    array = server.submit(str(server.file("array.rad", script)))
    found = [server.job(f"{array}_{index}")["due_at"] for index in range(3)]
    assert len(set(found)) == 1 and found[0] > now_s(server)
    server.radrm("edit", f"{array}_1", "--due=+9h")
    rows = [
        line for line in server.radrm("status").stdout.splitlines() if f" {array}_" in f" {line}"
    ]
    assert len(rows) == 3, "elements that are due at other times have rows of their own"
    server.radrm("cancel", str(array))
