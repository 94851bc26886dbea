"""The web page in Chromium beside ten thousand waiting jobs: first paint, updates, the daemon.

It needs Debian's chromium. It is run by hand:

    python -m benchmarks.serving.browser [JOBS [LOADS]]

First paint is what Chromium reports (first contentful paint), from the navigation's begin; each
load has a new context without a cache. An update is timed from the acknowledgement of a job until
its row is in the document. The daemon's share of a core is that of the same time without viewers,
with one, and with twenty.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil
from playwright.sync_api import sync_playwright

from benchmarks.real import occupy, running_daemon, submit
from benchmarks.table import Row, median_ms, p95_ms
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until
from tests.web.served import Events, Served

PAINT_MS = 300.0
UPDATE_MS = 1000.0
SHARE_MORE = 0.1
"""The limit of the daemon's further share of a core with twenty viewers."""
_PATIENCE_S = 1200.0
_SPAN_S = 10.0
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_WATCH = """name => new Promise(done => {
  const look = () => document.body.textContent.includes(name) && done(Date.now());
  new MutationObserver(look).observe(document.body, {childList: true, subtree: true});
  look();
})"""


def measure(jobs: int = 10_000, loads: int = 15) -> list[Row]:
    with running_daemon(devices=2) as home:
        occupy(home, devices=2, duration="1h")
        submit(home, ("true",), jobs, gpus="2", duration="10m")
        wait_until(lambda: _waiting(home) >= jobs, "all to be taken in", patience_s=_PATIENCE_S)
        with Served(home) as served, sync_playwright() as started:
            browser = started.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            context = browser.new_context()
            context.new_page().goto(served.new_link())
            state = context.storage_state()
            context.close()
            served.open()
            alone = _share(home)
            rows = [_paint(browser, state, served, loads), _update(browser, state, served, home)]
            rows += [_cost(home, served, viewers, alone) for viewers in (1, 20)]
            browser.close()
        home.ask("cancel", state="pending")
    return rows


def _paint(browser: Any, state: Any, served: Served, loads: int) -> Row:
    pairs = [
        [_first_paint(browser, state, served, path) for path in ("/", "/open?token=none")]
        for _ in range(loads)
    ]
    times, bare = zip(*pairs, strict=True)
    detail = f"of {loads} loads: p95 {p95_ms(times):.0f} ms; beside {median_ms(bare):.0f} ms for a "
    detail += "page of two sentences"
    return Row("first contentful paint: median", median_ms(times), PAINT_MS, "ms", detail)


def _first_paint(browser: Any, state: Any, served: Served, path: str) -> float:
    context = browser.new_context(storage_state=state)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{served.port}{path}")
    wait_until(lambda: page.evaluate(_PAINT) is not None, "the first paint")
    found: float = page.evaluate(_PAINT) / 1e3
    context.close()
    return found


def _update(browser: Any, state: Any, served: Served, home: DaemonHome) -> Row:
    context = browser.new_context(storage_state=state)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{served.port}/")
    page.locator("#link").get_by_text("live", exact=True).wait_for()
    times = []
    for number in range(15):
        name = f"update-{number}-"
        watched = page.evaluate_handle(f"name => {{ window.seen = ({_WATCH})(name); }}", name)
        watched.dispose()
        tickets, put_s = submit(home, ("true",), gpus="2", name=name, priority="100")
        home.ask("intake", jobs=tickets)
        times.append(page.evaluate("window.seen") / 1e3 - put_s)
    context.close()
    detail = f"of {len(times)}: median {median_ms(times):.0f} ms, longest {max(times) * 1e3:.0f} ms"
    return Row("submitted to shown: p95", p95_ms(times), UPDATE_MS, "ms", detail)


def _cost(home: DaemonHome, served: Served, viewers: int, alone: float) -> Row:
    with _viewers(served, viewers):
        share = _share(home)
    detail = f"{share:.1%} of a core beside {alone:.1%} without"
    return Row(f"daemon's further share, {viewers} viewers", share - alone, SHARE_MORE, "", detail)


@contextlib.contextmanager
def _viewers(served: Served, count: int) -> Iterator[None]:
    """Streams that are open, and read by nobody but the kernel."""
    streams: list[Events] = []
    for _ in range(count):
        if len(streams) % 10 == 9:
            served.open()  # one session has few streams
        streams.append(served.events("/events?view=overview"))
        assert streams[-1].status == 200
    try:
        yield
    finally:
        for stream in streams:
            stream.close()


def _share(home: DaemonHome) -> float:
    """The daemon's share of a core in some seconds."""
    assert home.process is not None
    process = psutil.Process(home.process.pid)
    before, began = process.cpu_times(), time.monotonic()
    time.sleep(_SPAN_S)
    after, took_s = process.cpu_times(), time.monotonic() - began
    return (after.user + after.system - before.user - before.system) / took_s


def _waiting(home: DaemonHome) -> int:
    return int(home.ask("page", limit=1)["counts"].get("PENDING", 0))


def main() -> int:
    if shutil.which("chromium") is None:
        print("this needs Debian's package chromium", file=sys.stderr)
        return 1
    rows = measure(*map(int, sys.argv[1:]))
    for row in rows:
        print(f"{row.what:<45}{row.measured:8.2f} {row.unit} (limit {row.limit:g}) {row.detail}")
    return 0 if all(row.fine for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
