"""Show the answer of `radrm explain` to people."""

from __future__ import annotations

from radrm.cli.show.card import headline
from radrm.cli.show.columns import Column, Field, Rows
from radrm.cli.show.parts.attempts import attempts_table
from radrm.cli.show.styled import Styled
from radrm.client.states import FINAL, LIVE, WAITING
from radrm.client.text import label, next_steps
from radrm.client.words.facts import estimated, memory_cap, sm_share
from radrm.client.words.reasons import (
    amount,
    expected_start,
    sentences,
    shows_devices,
    whose,
)
from radrm.errors import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.cli.show.styled import Part
    from radrm.client.text import Document


def explanation(answer: Document) -> list[Part]:
    """The parts of the output for one document of `explain`."""
    job = answer["job"]
    last = answer["attempts"][-1]["devices"] if answer["attempts"] else []
    index = dict(zip(job["devices"], last, strict=False))
    waiting = job["state"] in WAITING
    parts: list[Part] = [headline(job, index)]
    parts += map(_indented, sentences(answer))
    if waiting and shows_devices(answer):
        parts += [Styled(), _devices(answer["devices"])]
        parts += [_indented(each["text"]) for each in answer.get("sharing", ())]
    if answer["attempts"]:
        parts += [Styled(), attempts_table(job, answer["attempts"])]
    if job["state"] in FINAL and not answer["attempts"]:
        parts.append(_indented("It never started."))
    if job.get("cpu_list") and job["state"] in LIVE:
        parts.append(_indented(f"it runs on the CPUs near its GPUs: {job['cpu_list']}"))
    if job.get("not_enforced"):
        parts.append(_indented(job["not_enforced"]))
    if sm_share(job):
        parts.append(_indented(f"SM share: {sm_share(job)}"))
    if memory_cap(job):
        parts.append(_indented(f"memory cap: {memory_cap(job)}"))
    lines = [_indented(f"{name}: {text}") for name, text in estimated(job)]
    parts += [Styled(), *lines] if lines else []
    steps = [step for step in next_steps(job) if step != f"radrm explain {plain(label(job))}"]
    if waiting and expected_start(job, answer["now"]):
        parts += [Styled(), _indented(expected_start(job, answer["now"]))]
    if steps:
        parts += [Styled(), _indented(f"next: {'   '.join(steps)}")]
    return parts


def _indented(text: str) -> Field:
    return Field("", Styled(plain(text)), indent=2)


def _devices(devices: list[Document]) -> Rows:
    numbers = (Column("NEEDS", right=True), Column("AVAILABLE", right=True))
    measured = any(device["needed"] is not None for device in devices)
    table = Rows(
        (
            Column("GPU", right=True),
            Column("NAME", rank=2, most=20),
            Column("REFUSED BY"),
            *(numbers if measured else ()),
            Column("WHY", least=20, wrap=True),
        )
    )
    for device in devices:
        refused = device["rule"] is not None
        amounts = [amount(device[key], device["unit"]) for key in ("needed", "available")]
        table.add(
            str(device["index"]),
            plain(device["name"]),
            plain(device["rule"]) if refused else "-",
            *(amounts if measured else ()),
            whose(device) + plain(device["message"] or "")
            if refused
            else Styled("it could take the job", "green"),
        )
    return table
