"""`radrm explain`: why a job waits, device by device; or where and how it ran."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.text import Text

from radrm.cli.options import Job, Json
from radrm.cli.show.card import attempts_table, estimated, headline, next_steps
from radrm.cli.show.columns import Column, Field, Rows
from radrm.cli.show.render import out, why
from radrm.client.connection import Client
from radrm.client.exits import FINAL
from radrm.client.text import Document, label, print_json
from radrm.core.units import show_mib, show_seconds
from radrm.errors import plain


def explain(job: Job, as_json: Json = False) -> None:
    """Say why a job waits, or where and how it ran.

    For each GPU the first rule that refuses the job: what the job needs, what is there.

    \b
    Examples:
      radrm explain 12
      radrm explain 12_3 --json
    """
    with Client() as client:
        answer = client.ask("explain", jobs=[job])
    if as_json:
        print_json(answer)
    else:
        out().print(explanation(answer), soft_wrap=True)


def explanation(answer: Document) -> Group:
    """The document of `explain` for people."""
    job = answer["job"]
    last = answer["attempts"][-1]["devices"] if answer["attempts"] else []
    index = dict(zip(job["devices"], last, strict=False))
    waiting = job["state"] in ("PENDING", "RECOVERING")
    parts: list[Any] = [headline(job, index)]
    summary = answer.get("summary") or why(job)
    if summary:
        parts.append(_indented(summary))
    if waiting:
        parts += _general(answer)
        if _say_devices(answer):
            parts += [Text(""), _devices(answer["devices"])]
    if answer["attempts"]:
        parts += [Text(""), attempts_table(job, answer["attempts"])]
    if job["state"] in FINAL and not answer["attempts"]:
        parts.append(_indented("It never started."))
    lines = [_indented(f"{what}: {said}") for what, said in estimated(job)]
    parts += [Text(""), *lines] if lines else []
    steps = [step for step in next_steps(job) if step != f"radrm explain {plain(label(job))}"]
    if steps:
        parts += [Text(""), _indented(f"next: {'   '.join(steps)}")]
    return Group(*parts)


def amount(value: float | None, unit: str | None) -> str:
    """A number of a rule with its unit, for people; `-` where the rule has none."""
    if value is None:
        return "-"
    if unit and unit.lower() == "mib":
        return show_mib(value)
    if unit == "s":
        return show_seconds(value)
    return f"{value:.4g} {plain(unit)}" if unit else f"{value:.4g}"


def _indented(text: str) -> Field:
    return Field("", Text(plain(text)), indent=2)


def _general(answer: Document) -> list[Field]:
    """What holds the job up wherever it would go, and how many are served before it."""
    said = []
    for reason in answer["reasons"]:
        numbers = ""
        if reason["needed"] is not None and reason["available"] is not None:
            needed = amount(reason["needed"], reason["unit"])
            numbers = f": {amount(reason['available'], reason['unit'])} of {needed}"
        if numbers or reason["message"] != answer["summary"]:
            said.append(_indented(f"{reason['message']}{numbers}"))
    if answer["ahead"]:
        one = answer["ahead"] == 1
        said.append(_indented(f"{answer['ahead']} {'job is' if one else 'jobs are'} before it"))
    elif answer["ahead"] == 0:
        said.append(_indented("it is the first in line"))
    return said


def _say_devices(answer: Document) -> bool:
    """Devices that would all take the job say nothing while it is held up by something else."""
    refusing = any(device["rule"] is not None for device in answer["devices"])
    return refusing or (bool(answer["devices"]) and not answer["reasons"])


def _devices(devices: list[Document]) -> Rows:
    numbers = (Column("NEEDS", right=True), Column("THERE", right=True))
    measured = any(device["needed"] is not None for device in devices)
    table = Rows(
        (
            Column("GPU", right=True),
            Column("NAME", rank=2, most=20),
            Column("REFUSED BY"),
            *(numbers if measured else ()),
            Column("WHY", least=20),
        )
    )
    for device in devices:
        refused = device["rule"] is not None
        there = [amount(device[key], device["unit"]) for key in ("needed", "available")]
        table.add(
            str(device["index"]),
            plain(device["name"]),
            plain(device["rule"]) if refused else Text("nothing", style="green"),
            *(there if measured else ()),
            plain(device["message"] or "") if refused else "it could take the job",
        )
    return table
