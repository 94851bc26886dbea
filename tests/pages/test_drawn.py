"""The report's page in a real browser: nothing is loaded, run or cut off."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from radrm.structs import replace

pytest.importorskip("playwright.sync_api", reason="needs: pip install playwright")

from playwright.sync_api import sync_playwright

from radrm.pages.document import document
from radrm.pages.overview import overview_parts
from tests.pages.test_charts import HOSTILE
from tests.pages.test_overview import lively

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's package chromium")


@pytest.mark.nightly
def test_the_page_stands_alone_on_a_phone_in_the_dark(tmp_path: Path) -> None:
    past = lively()
    past.jobs = [
        replace(each, spec=replace(each.spec, name=HOSTILE, user=HOSTILE)) for each in past.jobs
    ]
    file = tmp_path / "report.html"
    file.write_text(document(HOSTILE, overview_parts(past.overview())), "utf-8")
    said: list[str] = []
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 360, "height": 740}, color_scheme="dark")
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url))
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        colour = "getComputedStyle(document.querySelector('{}')).{}"
        assert page.evaluate(colour.format("body", "backgroundColor")) == "rgb(20, 23, 27)"
        assert page.evaluate(colour.format(".chart .line-blue", "stroke")) == "rgb(61, 157, 219)"
        assert page.locator("figure svg[role=img]").count() == 8
        browser.close()
    assert said == [file.as_uri()], "the policy has stopped something, or something was loaded"
