"""The page in a real browser: hostile text runs nothing, and changes arrive. At night: without a
script, and after the server's end."""

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
