"""The report's page: from answers of a made past, hostile names, one file of bounded size."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from radrm.core.records import Placement, Share, Usage
from radrm.core.words import Collocation, JobState, Outcome
from radrm.host.storage.energy import EnergyRow
from radrm.pages.charts.gantt import MOST_BARS
from radrm.pages.document import document
from radrm.pages.overview import overview_parts
from radrm.pages.summary import gpu_share, incomplete, main_facts, summary
from radrm.structs import replace
from tests.daemon.answers.past.pasts import DAY_S, HOUR_S, MIDNIGHT, Past, attempt, job
from tests.pages.test_charts import HOSTILE, read


class Seen(HTMLParser):
    """The tags of a page, which must be closed in order, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        names = {name for name, _ in attrs}
        assert not {"src", "href", "style"} & names and not [n for n in names if n[:2] == "on"]
        if tag != "meta":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page_of(answer: Any) -> tuple[str, Seen]:
    parts = overview_parts(answer)
    for part in parts:
        for figure in re.findall(r"<figure.*?</figure>", part, re.DOTALL):
            read(figure)
    page = document("GPU use", parts)
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    return page, Seen(page)


def lively() -> Past:
    """Jobs with all ends, an out-of-memory death, a shared GPU, energy and estimates."""
    ends = [JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT, JobState.CANCELLED]
    outcomes = [Outcome.COMPLETED, Outcome.FAILED, Outcome.TIMEOUT, Outcome.CANCELLED]
    jobs = [job(n, end, started=60, ended=n * HOUR_S) for n, end in enumerate(ends, 1)]
    jobs.append(job(5, JobState.RUNNING, started=60))
    made = [
        attempt(n, n, 60, n * HOUR_S, "A" if n % 2 else "B", outcome=outcome)
        for n, outcome in enumerate(outcomes, 1)
    ]
    dead = attempt(1, 9, 0, 50, "A", outcome=Outcome.OOM)
    made = [dead, *made, attempt(5, 5, 60, None, "A"), attempt(5, 6, 60, 90)]
    made = [
        replace(
            each,
            usage=tuple(Usage(gpu, 9000, 0.4, shared=True) for gpu in each.devices),
            placement=Placement(
                tuple(Share(gpu, 10_000) for gpu in each.devices) or (Share(None),),
                Collocation.MPS,
            ),
        )
        for each in made
    ]
    energy = tuple(
        EnergyRow(int(MIDNIGHT + hour * HOUR_S), "A", owner, "ada", None, 1e6, 0.0, 0.0)
        for hour in range(2, 6)
        for owner in (1, None)
    )
    told = {n: {"horus": 12_000.0, "declared": 8000.0} for n in range(1, 5)}
    return Past(jobs, made, now_s=6 * HOUR_S, energy=energy, told=told)


def test_the_first_lines_are_the_summary() -> None:
    answer = lively().overview()
    lines = summary(answer)
    assert lines[0].endswith("4 jobs of 1 user ended on this server with 2 GPUs.")
    assert lines[1:4] == [
        "1 completed, 1 failed, 1 reached their time limit, 1 were cancelled.",
        "Now: 1 running, 0 waiting.",
        "Of those that started, half did within 1m of their submission, 95% within 1m.",
    ]
    assert "Jobs held GPUs for 9.98 GPU-hours: 83% of the GPUs' time since" in lines[4]
    assert lines[5] == "Of the memory that was reserved for jobs, 90% was used at the peak."
    assert lines[6] == (
        "1 attempt died of GPU out-of-memory. Of 1 job that ended after such a death, 1 completed "
        "in a later attempt."
    )
    assert lines[7].startswith("The GPUs used 2.22 kWh, 50% of it while no job was on them.")
    (begins,) = incomplete(answer)
    assert begins.startswith("The record of energy begins at ")
    assert ("1 of 1", "jobs completed after out-of-memory") in main_facts(answer)


def test_a_page_has_all_figures_and_their_words() -> None:
    page, seen = page_of(lively().overview())
    assert seen.tags.count("figure") == 8
    texts = set(seen.texts)
    assert {"completed", "failed", "time limit", "cancelled", "out of memory", "running"} <= texts
    assert {"horus", "declared", "0%", "100%"} <= texts
    ratios = [float(text[:-1]) for text in seen.texts if re.fullmatch(r"\d\.\d\dx", text)]
    assert ratios == pytest.approx([0.89] * 3 + [1.33] * 3, abs=0.03)
    assert "Without a GPU, and not drawn: 1 attempt." in texts
    assert "7 of 7 attempts shared a GPU" not in page
    assert "6 of 6 attempts shared a GPU with another one; 1 of these died" in page
    assert "peak 8.8G" in page
    assert "unknown" in texts, "the energy of the first hours"


def test_nothing_on_record_is_said_and_drawn() -> None:
    answer = Past([], gpus=()).overview()
    _, seen = page_of(answer)
    assert seen.texts.count("nothing on record") == 5
    assert summary(answer)[0].startswith("No job ended from ")
    assert gpu_share(answer) is None
    assert "No energy is on record: the power of the GPUs was not read." in incomplete(answer)


def test_removed_history_and_gpus_that_are_gone_are_said() -> None:
    past = Past(
        [job(1, started=0, ended=2 * HOUR_S)],
        [attempt(1, 1, 0, 2 * HOUR_S, "MIG-gone", "A")],
        gpus=("A",), now_s=2 * HOUR_S, removed_until=MIDNIGHT + 9,
    )  # fmt: skip
    answer = past.overview()
    assert gpu_share(answer) is None, "more GPU time than the GPUs of now could give"
    assert any("older jobs are removed" in line for line in incomplete(answer))
    _, seen = page_of(answer)
    assert "MIG-gone" in seen.texts and "GPU 0" in seen.texts


def test_hostile_names_are_text() -> None:
    past = lively()
    past.jobs = [
        replace(each, spec=replace(each.spec, name=HOSTILE, user=HOSTILE)) for each in past.jobs
    ]
    page, seen = page_of(past.overview())
    assert not {"script", "iframe", "img", "a"} & set(seen.tags)
    assert not set("\x1b\u202e\ud800\x00") & set(page)
    assert any("<script>alert" in text for text in seen.texts)


@pytest.mark.parametrize("name", ["train", "&" * 128, "\u4efb" * 128])
def test_the_largest_page_is_below_two_megabytes(name: str) -> None:
    count = 1700
    jobs = [
        replace(each := job(n, started=0, ended=n * 60), spec=replace(each.spec, name=name))
        for n in range(1, count)
    ]
    attempts = [attempt(n, n, n * 60 - 60, n * 60, *"ABCDEFGH") for n in range(1, count)]
    answer = Past(jobs, attempts, gpus=tuple("ABCDEFGH"), now_s=2 * DAY_S).overview()
    page, _ = page_of(answer)
    assert len(page.encode()) < 1_000_000
    assert len(answer["bars"]) * 8 > MOST_BARS
    assert re.search(r"\d+ more bars are not drawn", page)
