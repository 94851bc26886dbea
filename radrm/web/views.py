"""What the pages show: the daemon's answers as the values of templates.

A view gathers what its fragments need, and never raises a `RadrmError`: `trouble` says why there is
nothing new. Each fragment is a template and the element that it fills.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from markupsafe import Markup
from msgspec import Struct

from radrm.client.tail import owner_of
from radrm.client.text import FINAL, Document, label, next_steps
from radrm.client.words.facts import GIVEN, facts
from radrm.client.words.jobs import glob_of, names_of, words_of
from radrm.client.words.reasons import amount, expected_start, sentences, shows_devices, whose
from radrm.core.units import gpu_count, show_mib
from radrm.errors import RadrmError, Unreachable, UsageError, plain
from radrm.host.wall import wall_s
from radrm.pages.charts import Limit, Series, curves, sizes
from radrm.web.asking import KEEP_S, Asking, offered
from radrm.web.live import Fragments
from radrm.web.logs import Logs
from radrm.web.memory_curves import Curves
from radrm.web.rendering import draw, job_words

PAGE = 50
"""Rows on a page."""
MOST_GPUS = 128
"""GPUs on the page; `radrm gpus` shows all."""
_MOST_ATTEMPTS = 50
_MOST_FIRST = 2
"""Waiting jobs that the card of a GPU names."""
_FIRST_S = 2.0
"""The age up to which their reasons are shown: the daemon makes them anew for each question."""
_MOST_TEXT = 200
"""Characters of a filter."""
_DAYS = {"1d": "day", "7d": "7 days", "30d": "30 days", "365d": "year"}
_DAY_S = 86400.0
_REPORT_S = KEEP_S
"""The age up to which sums of the past are shown to others."""


class Query(Struct, frozen=True):
    """What a reader wants to see, in bounds whatever the address says."""

    filter: str = ""
    all: bool = False
    page: int = 1
    job: str = ""
    log: str = ""
    since: str = "7d"
    user: str = ""
    state: str = ""
    name: str = ""

    @classmethod
    def of(cls, given: dict[str, str]) -> Query:
        number = given.get("page", "1")
        page = int(number) if re.fullmatch(r"[0-9]{1,6}", number) else 1
        texts = {
            key: given.get(key, "")[:_MOST_TEXT].strip()
            for key in ("filter", "job", "user", "state", "name")
        }
        return cls(
            **texts,
            all=given.get("all", "") == "1",
            page=max(1, page),
            log=given["log"] if given.get("log") in ("stdout", "stderr") else "",
            since=given["since"] if given.get("since") in _DAYS else "7d",
        )


_NOT_FOR_IT = frozenset({"kind", "capacity", "vanished", "drained", "reading"})
"""Rules by which a job does not wait for a GPU, or which the GPU's own state says."""
View = Callable[[Query], Awaitable[dict[str, Any]]]


class Views:
    """Gathers what the pages show."""

    def __init__(self, asking: Asking, curves: Curves, logs: Logs) -> None:
        self._asking, self._curves, self._logs = asking, curves, logs
        self.host = plain(socket.gethostname())
        self.simulated = False
        """Whether the GPUs were simulated when they were last asked for."""

    async def gpus(self) -> list[Document]:
        """Ask for the GPUs, and note the memory of their jobs."""
        devices: list[Document] = await self._asking.ask("gpus")
        self._curves.add(devices, wall_s())
        self.simulated = any(each.get("simulated") for each in devices)
        return devices

    async def overview(self, query: Query) -> dict[str, Any]:
        """GPUs and the queue."""
        words = words_of(query.filter, query.all)
        empty = {"jobs": [], "total": 0, "counts": {}, "devices": {}, "now": wall_s()}
        found: dict[str, Any] = {"trouble": "", "devices": [], "page": empty, "waiting": {}}
        try:
            found["devices"] = await self.gpus()
            found["waiting"] = await self._first_waiting()
            offset = (query.page - 1) * PAGE
            found["page"] = await self._asking.ask(
                "page", {**words, "offset": offset, "limit": PAGE}
            )
        except RadrmError as error:
            found["trouble"] = trouble_of(error)
        found["waiting"] = defaultdict(list, found["waiting"])
        page = found["page"]
        rows = [job_words(job, page["devices"], page["now"]) for job in page["jobs"]]
        counts = _counts(page["counts"], len(found["devices"]), self.simulated)
        more = max(0, len(found["devices"]) - MOST_GPUS)
        return {
            **found,
            "query": query,
            "rows": rows,
            "names": defaultdict(str, {row["label"]: row["name"] for row in rows}),
            "dues": any(row["due"] for row in rows),
            "counts": counts,
            "title": f"{counts} · {self.host}",
            "devices": found["devices"][:MOST_GPUS],
            "more_gpus": more,
            **_pages(query.page, page["total"]),
        }

    async def _first_waiting(self) -> dict[str, list[dict[str, str]]]:
        """The first waiting jobs, with the reason why they do not start on a GPU, by its UUID."""
        words = {"state": "PENDING,RECOVERING", "offset": 0, "limit": _MOST_FIRST}
        page = await self._asking.ask("page", words)
        found: dict[str, list[dict[str, str]]] = {}
        for job in page["jobs"]:
            if job["position"] is None:
                continue  # held, or after a job: no GPU is to blame
            name = names_of(job)[0]
            try:
                answer = await self._asking.ask("explain", {"jobs": [name]}, _FIRST_S)
            except Unreachable:
                raise
            except RadrmError:
                continue  # it has been removed meanwhile
            for each in answer["devices"] if shows_devices(answer) else ():
                if each["rule"] and each["rule"] not in _NOT_FOR_IT:
                    why = {"link": name, "name": job["name"], "why": _on_card(each)}
                    found.setdefault(each["uuid"], []).append(why)
        return found

    async def job(self, query: Query) -> dict[str, Any]:
        """One job. `job` is None if it does not exist, or the daemon does not answer."""
        try:
            answer = await self._asking.ask("explain", {"jobs": [query.job]})
            devices = await self.gpus()
        except RadrmError as error:
            found = {"trouble": trouble_of(error), "job": None, "query": query}
            return {**found, "missing": not isinstance(error, Unreachable), "title": "no job"}
        job, now = as_readers_see(answer["job"]), answer["now"]
        index = {each["uuid"]: each["index"] for each in devices}
        which = query.log or ("stderr" if job["state"] == "FAILED" else "stdout")
        log, log_error, path = await self._log(job, which)
        lines = [*facts(job, now, index, answer["attempts"])]
        return {
            "trouble": "",
            "missing": False,
            "query": query,
            "job": job,
            "label": label(job),
            "answer": answer,
            "facts": _joined(lines),
            "why": [*sentences(answer), *filter(None, [expected_start(job, now)])],
            "refusals": _refusals(answer),
            "attempts": [_attempt(job, each) for each in answer["attempts"][-_MOST_ATTEMPTS:]],
            "next": next_steps(job),
            "offered": offered(job),
            "which": which,
            "log": log,
            "log_error": log_error,
            "log_path": path,
            "curve": self._curve(job),
            "title": f"{job['state']} · job {label(job)} {job['name']}",
            "ended": job["state"] in FINAL,
        }

    async def _log(self, job: Document, which: str) -> tuple[list[str], str, str]:
        """The last lines of a log, why there are none, and its path."""
        if not job["attempts"]:
            return [], "The job has not started, so it has no log.", ""
        try:
            paths = await self._asking.ask("logs", {"jobs": [label(job)]})
            lines = await self._logs.end(paths[which], owner_of(paths))
        except RadrmError as error:
            return [], trouble_of(error), ""
        return lines, "" if lines else "Nothing in it so far.", paths[which]

    def _curve(self, job: Document) -> Markup | None:
        """The memory of a job over time, as this page has read it."""
        found = self._curves.of(label(job))
        if not found or len(found[0][1]) < 2:
            return None
        series = [Series(f"GPU {gpu}", places) for gpu, places in found]
        begin_s = min(places[0][0] for _, places in found)
        end_s = max(places[-1][0] for _, places in found)
        limits = []
        if job["reserved_mib"] is not None:
            limits.append(Limit("reserved", job["reserved_mib"]))
        return Markup(  # the charts escape the names in them
            curves("memory", "GPU memory", series, sizes("memory"), begin_s, end_s, limits=limits)
        )

    async def history(self, query: Query) -> dict[str, Any]:
        """Past jobs, the newest first, and their sums."""
        filters = {
            "user": query.user,
            "state": query.state,
            "name": query.name and glob_of(query.name),
        }
        asked = {key: value for key, value in filters.items() if value}
        found: dict[str, Any] = {"trouble": "", "answer": None, "rows": []}
        total = 0
        try:
            since, until = await self._period(query)
            words: dict[str, Any] = {**asked, "since": since, "until": until}
            words |= {"offset": (query.page - 1) * PAGE, "limit": PAGE}
            answer = await self._asking.ask("history", words, _REPORT_S)
            found["answer"], total = answer, answer["total"]
            found["rows"] = [
                {**job_words(job, answer["devices"], until), "job": job}
                for job in reversed(answer["jobs"])
            ]
        except RadrmError as error:
            found["trouble"] = trouble_of(error)
        title = f"{total} past {'job' if total == 1 else 'jobs'} · {self.host}"
        return {**found, "query": query, "days": _DAYS, "title": title, **_pages(query.page, total)}

    async def usage(self, query: Query) -> dict[str, Any]:
        """Who uses what now, and what users have used."""
        found: dict[str, Any] = {"trouble": "", "report": None, "now": [], "running": 0}
        try:
            since, until = await self._period(query)
            words = {"by": "user", "since": since, "until": until}
            found["report"] = await self._asking.ask("report", words, _REPORT_S)
            running = {"state": "RUNNING", "offset": 0, "limit": 500}
            page = await self._asking.ask("page", running)
            found["now"], found["running"] = _users_now(page["jobs"]), page["total"]
        except RadrmError as error:
            found["trouble"] = trouble_of(error)
        users = len(found["report"]["rows"]) if found["report"] else 0
        title = f"{users} {'user' if users == 1 else 'users'} · {self.host}"
        return {**found, "query": query, "days": _DAYS, "title": title}

    async def _period(self, query: Query) -> tuple[float, float]:
        """Begin and end on the daemon's clock, in steps, so that equal questions are one."""
        now = (await self._asking.ask("ping", None, _REPORT_S))["now"]
        return max(0.0, now - int(query.since[:-1]) * _DAY_S), now


FRAGMENTS = {
    "overview": ("notice", "counts", "gpus", "jobs"),
    "job": ("notice", "head", "why", "facts", "attempts", "curve", "log"),
}
"""The live parts of a page: ids of elements, and their templates `parts/NAME.html`."""


def as_readers_see(job: Document) -> Document:
    """Return a job without what only its user may see: root's page may have other readers."""
    if os.geteuid() != 0 or job["user"] == pwd.getpwuid(0).pw_name:
        return job
    return {key: value for key, value in job.items() if key not in GIVEN}


def fragments(view: str, found: dict[str, Any]) -> Fragments:
    """Draw the live parts of a page. While there is trouble, only the notice: the rest stays."""
    if found["trouble"]:
        return {"notice": draw("parts/notice.html", **found)}
    drawn = {name: draw(f"parts/{name}.html", **found) for name in FRAGMENTS[view]}
    return {**drawn, "title": plain(found["title"])}


def trouble_of(error: RadrmError) -> str:
    if isinstance(error, Unreachable):
        return "The daemon does not answer; trying again. Jobs run on."
    if isinstance(error, UsageError):
        return f"Not understood: {plain(str(error))}"
    return plain(str(error))


def _counts(counts: dict[str, int], devices: int, simulated: bool) -> str:
    """As `3 running, 97 pending, 4 GPUs`, or `4 simulated GPUs`."""
    parts = [f"{number} {plain(state).lower()}" for state, number in counts.items() if number]
    gpus = gpu_count(devices, simulated)
    return ", ".join([*(parts or ["nothing runs or waits"]), gpus])


def _pages(page: int, total: int) -> dict[str, int]:
    last = max(1, -(-total // PAGE))
    first = min(total, (page - 1) * PAGE + 1)
    return {"total": total, "last": last, "first": first, "until": min(total, page * PAGE)}


def _joined(lines: list[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Facts of one name in one entry."""
    found: dict[str, list[str]] = {}
    for name, text in lines:
        found.setdefault(name, []).append(text)
    return [*found.items()]


def _on_card(refusal: Document) -> str:
    """Why a GPU does not take a job. Its card shows who has its memory."""
    needed, available = refusal.get("needed"), refusal.get("available")
    if refusal["rule"] == "memory" and needed is not None and available is not None:
        return f"needs {show_mib(needed)}, {show_mib(available)} free"
    return refusal["message"] or ""


def _refusals(answer: Document) -> list[Document]:
    if answer["job"]["state"] in FINAL or not shows_devices(answer):
        return []
    return [
        {
            "index": each["index"],
            "name": each["name"],
            "rule": each["rule"] or "",
            "needed": amount(each["needed"], each["unit"]),
            "available": amount(each["available"], each["unit"]),
            "why": whose(each) + (each["message"] or "") if each["rule"] else "",
        }
        for each in answer["devices"][:MOST_GPUS]
    ]


def _attempt(job: Document, attempt: Document) -> Document:
    """One attempt; a live one shows the use so far."""
    if attempt["ended_at"] is None:
        attempt = attempt | {key: job[key] for key in ("reserved_mib", "peak_mib", "energy_j")}
    code = attempt["exit_code"]
    return {
        **attempt,
        "outcome": attempt["outcome"] or job["state"].lower(),
        "gpus": ",".join(map(str, attempt["devices"])) or "-",
        "reason": attempt["reason"] or (f"exit code {code}" if code else ""),
    }


def _users_now(jobs: list[Document]) -> list[dict[str, Any]]:
    """What the users of these running jobs hold, the largest first."""
    held: dict[str, dict[str, Any]] = {}
    for job in jobs:
        mine = held.setdefault(job["user"], {"jobs": 0, "gpus": set(), "mib": 0})
        mine["jobs"] += 1
        mine["gpus"].update(job["devices"])
        mine["mib"] += (job["reserved_mib"] or 0) * max(1, len(job["devices"]))
    rows = [
        {"user": user, "jobs": mine["jobs"], "gpus": len(mine["gpus"]), "mib": mine["mib"]}
        for user, mine in held.items()
    ]
    for row in rows:
        row["reserved"] = show_mib(row["mib"])
    return sorted(rows, key=lambda row: -row["mib"])
