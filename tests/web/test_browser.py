"""The page in a real browser: hostile text runs nothing, changes arrive, and axe-core finds that
all can read it. At night: each page in each state and width, by keyboard, without a script, and
after the server's end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the page needs: pip install 'radrm[web]'")
pytest.importorskip("playwright.sync_api", reason="needs: pip install playwright")

from playwright.sync_api import sync_playwright

from tests.daemon.harness import DaemonHome
from tests.waiting import PATIENCE_S
from tests.web.served import HOSTILE, Served

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's package chromium")
_COMMAND = r"printf '<script>document.title=1</script><img src=x onerror=alert(3)>\n'; sleep 1000"
_AXE = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    "resultTypes": ["violations"],
}
_FOCUSED = """() => {
  const at = document.activeElement, box = at.getBoundingClientRect();
  const shown = box.width > 0 && box.right > 0 && box.bottom > 0;
  const place = [...document.querySelectorAll("*")].indexOf(at);
  return [at.textContent.trim(), getComputedStyle(at).outlineStyle, shown ? place : 0];
}"""
_WIDER = "document.documentElement.scrollWidth > innerWidth"


@pytest.fixture(scope="module")
def served(shared_daemon: DaemonHome) -> Iterator[Served]:
    shared_daemon.radrm("submit", "--gpus=0", "--name", HOSTILE, "--", "bash", "-c", _COMMAND)
    with Served(shared_daemon, "--allow-commands") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def opened(browser: Any, served: Served, said: list[str], **options: Any) -> Any:
    """A page with a session; `said` hears errors, dialogs and what the policy has stopped."""
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(PATIENCE_S * 1000)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.goto(served.new_link())
    return page


def test_hostile_text_is_text_and_changes_arrive(
    browser: Any, served: Served, shared_daemon: DaemonHome
) -> None:
    said: list[str] = []
    page = opened(browser, served, said, viewport={"width": 360, "height": 740})
    page.get_by_text("onerror=alert(2)").first.wait_for()
    assert page.evaluate(_WIDER) is False
    shared_daemon.radrm("submit", "--hold", "--name", "later", "--", "true")
    page.get_by_text("later").first.wait_for()  # without a reload
    assert "1 running, 1 pending" in page.title()
    page.get_by_text("onerror=alert(2)").first.click()
    page.locator(".id a").first.click()
    page.locator("pre").get_by_text("document.title=1").wait_for()
    assert page.evaluate(_WIDER) is False
    assert page.locator("main script, main img").count() == 0
    page.goto(f"http://127.0.0.1:{served.port}/job?job=2")
    page.get_by_text("Cancel…").click()
    page.get_by_role("button", name="Cancel job 2").click()
    page.get_by_text("Cancelled job 2.").wait_for()
    page.locator("#head").get_by_text("CANCELLED").wait_for()
    assert said == []


def violations(page: Any) -> list[str]:
    """What axe-core finds against WCAG 2 A and AA, in light and dark; and whether the page is
    wider than its window."""
    source = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="needs: pip install axe-playwright-python"
    )
    found = ["it is wider than its window"] if page.evaluate(_WIDER) else []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        answer = source.Axe().run(page, options=_AXE).response
        found += [
            f"{scheme}: {wrong['id']}: {node['html']:.200}: {node['failureSummary']:.300}"
            for wrong in answer["violations"]
            for node in wrong["nodes"]
        ]
    return found


@pytest.fixture(scope="module")
def waiting(shared_daemon: DaemonHome) -> str:
    """A job that waits for both GPUs, which another one uses."""
    found = ""
    for name in ("fills", "waits"):
        done = shared_daemon.radrm("submit", "--name", name, "--gpus=2", "--gpu-memory=38G", "--",
                                   "radrm-simjob", "--gpu-memory=30G", "--gpus=2",
                                   "--seconds=1000000")  # fmt: skip
        found = done.stdout.split()[2]
    return found


@pytest.mark.usefixtures("waiting")
def test_everybody_can_read_it(browser: Any, served: Served) -> None:
    page = opened(browser, served, [], viewport={"width": 360, "height": 740})
    page.locator(".waits").first.wait_for()
    assert violations(page) == []


@pytest.mark.nightly
@pytest.mark.parametrize("width", [360, 1400])
def test_each_page_is_read_in_each_state(
    browser: Any,
    served: Served,
    home: DaemonHome,
    shared_daemon: DaemonHome,
    waiting: str,
    width: int,
) -> None:
    shared_daemon.radrm("submit", "--name=fails", "--gpus=0", "--wait", "--", "false")
    failed = shared_daemon.ask("status", jobs=["fails"])[-1]["label"]
    jobs = [f"job?job={each}" for each in (1, failed, waiting, 999)]

    def walk(of: Served, *paths: str) -> None:
        page = opened(browser, of, [], viewport={"width": width, "height": 800})
        for path in ("", "?all=1", "history", "usage", *paths):
            page.goto(f"http://127.0.0.1:{of.port}/{path}")
            assert (path, violations(page)) == (path, [])

    walk(served, *jobs, "?filter=nothing", "?filter=state=x", "history?user=x", "open?token=old")
    with Served(home) as alone:
        walk(alone, *jobs[:1])  # no daemon answers
        home.start()
        walk(alone)  # no job, and no past


@pytest.mark.nightly
@pytest.mark.parametrize("path", ["", "job?job=1", "history", "usage"])
def test_all_is_reached_by_keyboard_and_seen(browser: Any, served: Served, path: str) -> None:
    page = opened(browser, served, [])
    page.goto(f"http://127.0.0.1:{served.port}/{path}")
    wanted = page.locator("a, button:visible, input:visible, select, summary, [tabindex]").count()
    reached = []
    for _ in range(wanted):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(_FOCUSED))
    assert reached[0][0] == "Skip to the content"
    assert all(outline == "solid" and shown for _, outline, shown in reached), reached
    assert len({place for _, _, place in map(tuple, reached)}) == wanted
    page.goto(f"http://127.0.0.1:{served.port}/{path}")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main, footer') !== null")


@pytest.mark.nightly
def test_without_a_script_the_page_is_whole(browser: Any, served: Served) -> None:
    said: list[str] = []
    page = opened(browser, served, said, java_script_enabled=False, color_scheme="dark")
    page.get_by_text("onerror=alert(2)").first.wait_for()
    assert page.locator("article.gpu").count() == 2
    page.get_by_role("link", name="History").click()
    page.get_by_role("heading", name="History").wait_for()
    assert said == []


@pytest.mark.nightly
def test_a_server_that_ends_is_said(browser: Any, served: Served) -> None:
    """The last test: it ends the server of the others."""
    page = opened(browser, served, [])
    page.locator("#link").get_by_text("live", exact=True).wait_for()
    served.end()
    page.locator("#link.bad").wait_for()
