"""Tables that fit any terminal, and are whole in a pipe; texts of others harm no screen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from radrm.cli.show.card import card
from radrm.cli.show.columns import Column, Field, Rows
from radrm.cli.show.devices import device_name, devices_table
from radrm.cli.show.jobs import change_line, counts_line, job_rows
from radrm.cli.show.styled import Styled
from radrm.client.amounts import show_joules
from radrm.client.words.jobs import advance, why
from radrm.errors import plain
from tests.cli.fakes import ESC, NOW, gpu, job, shown

COLUMNS = (
    Column("JOB", right=True),
    Column("NAME", least=4, most=10),
    Column("EXTRA", rank=2),
    Column("MORE", rank=1),
    Column("WHY", least=6),
)
TEXTS = st.text(st.characters(categories=["Lu", "Lo", "Nd", "Zs"]), max_size=40)


def table(*rows: tuple[str, ...]) -> Rows:
    made = Rows(COLUMNS)
    for row in rows:
        made.add(*row)
    return made


# ------------------------------------------------------------------ columns


@given(st.lists(st.tuples(*[TEXTS] * len(COLUMNS)), max_size=5), st.integers(1, 200))
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, ...]], width: int) -> None:
    lines = shown(table(*rows), width)
    assert len(lines) == len(rows) + 1, "a row is a line"
    assert all(cell_len(line) <= width for line in lines)


@given(st.lists(st.tuples(*[TEXTS] * len(COLUMNS)), max_size=5))
def test_a_pipe_gets_everything(rows: list[tuple[str, ...]]) -> None:
    lines = [line.plain for line in table(*rows).lines(None)]
    for row, line in zip(rows, lines[1:], strict=True):
        assert all(plain(cell) in line for cell in row)


def test_columns_are_left_out_in_their_order_and_then_shortened() -> None:
    made = table(("12", "resnet50", "extra", "more", "because it is so"))
    heads = {width: shown(made, width)[0].split() for width in (60, 33, 27, 20)}
    assert heads[60] == ["JOB", "NAME", "EXTRA", "MORE", "WHY"]
    assert heads[33] == ["JOB", "NAME", "EXTRA", "MORE", "WHY"]
    assert heads[27] == ["JOB", "NAME", "MORE", "WHY"]
    assert heads[20] == ["JOB", "NAME", "WHY"]
    assert shown(made, 60)[1] == " 12  resnet50  extra  more  because it is so"
    assert shown(made, 20)[1] == " 12  resnet…  becau…"


def test_what_stands_right_stands_right_and_nothing_follows_a_line() -> None:
    lines = shown(table(("1", "a", "", "", ""), ("1234", "b", "", "", "why")), 80)
    assert lines == [" JOB  NAME  EXTRA  MORE  WHY", "   1  a", "1234  b                  why"]


def test_a_long_text_goes_on_below_its_beginning() -> None:
    field = Field("why", Styled("it waits because others are before it"))
    assert shown(field, 34) == [
        "  why         it waits because",
        "              others are before it",
    ]
    assert shown(field, 34, terminal=False) == [
        "  why         it waits because others are before it"
    ]


# ------------------------------------------------------------------ hostile texts


@given(st.text(max_size=60))
def test_plain_text_moves_no_cursor(text: str) -> None:
    assert plain(text).isprintable() and len(plain(text)) == len(text)


def hostile() -> dict[str, Any]:
    return job(name=f"a{ESC}[bold]b", user=f"u{ESC}", reason=f"r{ESC}\nJob 1 done", label=f"5{ESC}")


@pytest.mark.parametrize("terminal", [True, False])
def test_what_others_wrote_recolours_nothing(terminal: bool) -> None:
    for thing in (
        job_rows([hostile()], {"GPU-a": 0}),
        change_line(hostile(), {}, NOW),
        devices_table([gpu(name=f"A{ESC}", reason=f"r{ESC}", state="drained", profile=ESC)]),
    ):
        lines = shown(thing, 200, terminal)
        assert all(line.isprintable() for line in lines), lines
    assert "[bold]b" in shown(job_rows([hostile()], {"GPU-a": 0}), 200)[1], "no markup is read"


# ------------------------------------------------------------------ jobs


def test_a_row_says_where_and_why() -> None:
    running = job(1, "RUNNING", reserved_mib=6144, peak_mib=5000, devices=["GPU-b", "GPU-x"])
    waiting = job(2, reason="behind job 1")
    array = job(3, label="3_[4-99]", count=96)
    lines = shown(job_rows([running, waiting, array], {"GPU-a": 0, "GPU-b": 1}), 160)
    assert " ".join(lines[1].split()) == "1 resnet50 ada RUNNING 1,GPU-x 6.0G 6.0G 4.9G 1m00s"
    assert " ".join(lines[2].split()) == "2 resnet50 ada PENDING - 6.0G - - 1m40s behind job 1"
    assert lines[3].startswith("3_[4-99]")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ""),
        ({"progress": None}, ""),
        ({"progress": {"work_done": 0.629}}, "62 %"),
        (
            {"progress": {"work_done": 0.5}, "expected_end_at": NOW + 840, "saved_at": NOW - 180},
            "50 %, 14m00s left, saved 3m00s ago",
        ),
        ({"progress": {"step": 120.0, "work_done": None}}, "step 120"),
        ({"progress": {"step": 1234567.0, "work_done": None}}, "step 1234567"),
        ({"progress": {"epoch": 2.5, "work_done": None}}, "epoch 2.5"),
        ({"progress": {"step": 120.0, "epoch": 2.0, "work_done": None}}, "step 120, epoch 2"),
        ({"expected_end_at": NOW + 840}, ""),
        ({"saved_at": NOW + 5}, "saved 0s ago"),
    ],
)
def test_how_far_a_job_is(fields: dict[str, Any], expected: str) -> None:
    found = job(1, "RUNNING", **fields)
    assert advance(found, NOW) == expected
    row = " ".join(shown(job_rows([found], {}, NOW), 160)[1].split())
    assert row.endswith(expected) if expected else row.endswith("1m00s")


def test_a_card_tells_progress_and_dropped_reports() -> None:
    progress = {"step": 62.0, "total": 100.0, "loss": 0.3123456, "work_done": 0.62}
    found = job(1, "RUNNING", progress=progress, reports_dropped=3, reports_dropped_why=f"x{ESC}")
    text = [line for part in card(found, NOW, {}) for line in shown(part, 160)]
    assert "  progress    62 %, step 62 of 100, loss 0.3123" in text
    assert any(t.startswith("  reports     3 dropped, the last one because x") for t in text)
    assert all(t.isprintable() for t in text)


def test_eighty_columns_keep_what_matters() -> None:
    long = "No GPU has room now: needs 32.0G, at most 10.0G is free."
    all_of_it = {"JOB", "NAME", "STATE", "GPU", "EST", "RESERVED", "PEAK", "TIME", "WHY"}
    for user in ("ada", "a-user-of-a-directory"):
        rows = [
            job(1, "RUNNING", devices=["GPU-a"], user=user),
            job(2, name="a-rather-long-name-of-a-job", reason=long),
            job(3, "RECOVERING", label="2_[10-99]", reason=long, count=90),
        ]
        head, _, second, _ = shown(job_rows(rows, {"GPU-a": 0}), 80)
        assert all_of_it <= set(head.split()), "no reason is long enough to remove them"
        assert second.endswith("…") and "No GP" in second
        assert shown(job_rows(rows, {"GPU-a": 0}), 80, terminal=False)[2].endswith(long)
    wide = shown(job_rows(rows, {"GPU-a": 0}), 160)
    assert "USER" in wide[0] and wide[2].endswith(long)


def test_the_user_of_all_rows_makes_way_for_the_reasons() -> None:
    long = "No GPU has room now: needs 32.0G, at most 10.0G is free."
    mine = [job(1, name="a", reason=long), job(2, name="b", reason=long)]
    assert "USER" not in shown(job_rows(mine, {}), 80)[0]
    both = [mine[0], job(2, name="b", reason=long, user="bob")]
    assert "USER" in shown(job_rows(both, {}), 80)[0]


def test_the_mark_of_a_whole_device_is_no_size() -> None:
    line = shown(job_rows([job(estimate_mib=2**30)], {"GPU-a": 0}), 120)[1]
    assert line.split()[4:7] == ["-", "-", "-"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"reason": "behind job 1"}, "behind job 1"),
        ({"oom_count": 1, "state": "COMPLETED"}, "recovered from out-of-memory once"),
        ({"oom_count": 1, "state": "RUNNING"}, "ran out of GPU memory once, runs again"),
        (
            {"oom_count": 1, "state": "RECOVERING", "reason": "Waits for an idle GPU."},
            "Waits for an idle GPU.",
        ),
        ({"oom_count": 2, "state": "CANCELLED"}, "ran out of GPU memory 2 times"),
        ({"oom_count": 3, "reason": "gave up", "state": "FAILED"}, "gave up"),
    ],
)
def test_why(changed: dict[str, Any], said: str) -> None:
    assert why(job(**changed)) == said


def test_counts_come_in_the_order_of_interest() -> None:
    line = counts_line({"PENDING": 97, "FAILED": 2, "RUNNING": 3, "RECOVERING": 1, "NEW": 1}, 4)
    assert line.plain == "3 running, 1 recovering, 97 pending, 2 failed, 1 new — 4 GPUs"
    assert counts_line({"RUNNING": 1}, 1).plain == "1 running — 1 GPU"
    assert counts_line({"RUNNING": 1}, 1, True).plain == "1 running — 1 simulated GPU"


@pytest.mark.parametrize(
    ("joules", "text"),
    [(None, "-"), (0, "0 J"), (999, "999 J"), (12_345, "12.3 kJ"), (4.1e6, "4.1 MJ")],
)
def test_energy(joules: float | None, text: str) -> None:
    assert show_joules(joules) == text


def test_a_device_that_cannot_be_read_says_so() -> None:
    unknown = dict.fromkeys(("used_mib", "free_mib", "smact", "power_w", "unmanaged_mib"))
    broken = gpu(state="unreadable", reason="NVML: GPU is lost", jobs=[], **unknown)
    line = shown(devices_table([broken]), 160)[1]
    assert "????" in line and "NVML: GPU is lost" in line and "0.00" not in line


def test_a_card_ends_with_its_log_and_names_the_error() -> None:
    failed = job(1, "FAILED", reason="exit code 1", exit_code=1)
    tails = {"stdout": ["epoch 1", "epoch 2"], "stderr": ["Traceback", "ValueError: bad"]}
    text = [line for part in card(failed, NOW, {}, tails=tails) for line in shown(part, 80)]
    assert "  why         exit code 1: ValueError: bad" in text
    at = text.index("  stdout      epoch 1")
    assert text[at + 1].strip() == "epoch 2" and text[at - 2].startswith("  next")
    assert text[-2:] == ["  stderr      Traceback", f"{'':14}ValueError: bad"]
    both = ["Traceback", "ValueError: bad", "epoch 3"]
    text = [line for part in card(failed, NOW, {}, tails={"log": both}) for line in shown(part, 80)]
    assert "  why         exit code 1: ValueError: bad" in text and text[-1].strip() == "epoch 3"
    running = job(1, "RUNNING")
    text = [line for part in card(running, NOW, {}, tails=tails) for line in shown(part, 80)]
    assert not any("why" in line for line in text)


@pytest.mark.parametrize("width", [34, 40, 60])
def test_the_columns_of_a_narrow_terminal_are_whole(width: int) -> None:
    lines = [line.plain for line in devices_table([gpu(0), gpu(1)]).lines(width)]
    assert len(lines) == 3 and not any("…" in line for line in lines)
    assert {"GPU", "FREE", "JOBS"} <= set(lines[0].split())


def test_the_text_of_a_last_column_is_wrapped_if_that_is_wanted() -> None:
    table = Rows((Column("GPU", right=True), Column("WHY", least=10, wrap=True)))
    table.add("0", Styled("needs 40.0G, 27.6G free", "red"))
    table.add("10", "-")
    lines = table.lines(20)
    assert [line.plain for line in lines] == [
        *("GPU  WHY", "  0  needs 40.0G,", "     27.6G free", " 10  -"),
    ]
    assert ("27.6G free", "red") in lines[2].pieces
    assert table.plain_lines()[1] == "  0  needs 40.0G, 27.6G free"


def test_a_line_of_text_is_cut_or_wrapped_at_words() -> None:
    text = "one two three four five"
    assert shown(Styled(text, cut=True), 20) == ["one two three four …"]
    assert [line.rstrip() for line in shown(Styled(text), 20)] == ["one two three four", "five"]
    assert shown(Styled(text), 20, terminal=False) == [text]


@pytest.mark.parametrize(
    ("name", "profile", "text"),
    [
        ("NVIDIA H100 80GB HBM3", None, "NVIDIA H100 80GB HBM3"),
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "3g.20gb", "NVIDIA A100-SXM4-40GB MIG 3g.20gb"),
        ("A100-40GB", "3g.20gb", "A100-40GB 3g.20gb"),
    ],
)
def test_a_profile_is_named_once(name: str, profile: str | None, text: str) -> None:
    assert device_name({"name": name, "profile": profile}) == text
