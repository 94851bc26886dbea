"""The time that `radrm top` needs for a new picture and for a key, with a thousand jobs.

The answers are there already: what counts is the CPU time of the program itself, from an answer or
a key until the screen is drawn, headless.

    python -m benchmarks.serving.redraw
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from benchmarks.table import Row, median_ms, p95_ms, shown
from radrm.top.app import Top
from radrm.top.source import Question, Source
from tests.cli.fakes import Script, gpu, job, page

LIMIT_MS = 50.0
GPUS = 8


def measure(jobs: int = 1000, pictures: int = 50) -> list[Row]:
    rows = []
    for width, height in ((80, 24), (200, 60)):
        drawn, moved = asyncio.run(_draw(jobs, pictures, (width, height)))
        for what, found in (("a picture", drawn), ("a key", moved)):
            name = f"top: {what}, {jobs} jobs, {GPUS} GPUs, {width}x{height}"
            rows.append(Row(name, median_ms(found), LIMIT_MS, "ms", f"p95 {p95_ms(found):.0f} ms"))
    return rows


async def _draw(jobs: int, pictures: int, size: tuple[int, int]) -> tuple[list[float], list[float]]:
    found = [
        job(n, "PENDING", name=f"train-{n}", reason="behind job 1") for n in range(1, jobs + 1)
    ]
    devices = [gpu(index, uuid=f"GPU-{index}") for index in range(GPUS)]

    def answer(words: dict[str, Any]) -> Any:
        first = words["offset"]
        return page(found[first : first + words["limit"]], jobs, PENDING=jobs)

    source = Source(Script(gpus=[devices], page=[answer]))
    app = Top(source)
    drawn, moved = [], []
    async with app.run_test(size=size) as pilot:
        await app.workers.wait_for_complete()
        for number in range(pictures):
            question = Question(first=number)
            answer_to = source.ask(question)
            began = time.process_time()
            app._show(question, answer_to)
            await pilot.pause()
            now = time.process_time()
            drawn.append(now - began)
            await pilot.press("j")
            await pilot.pause()
            moved.append(time.process_time() - now)
    return drawn, moved


def main() -> int:
    return shown(measure())


if __name__ == "__main__":
    sys.exit(main())
