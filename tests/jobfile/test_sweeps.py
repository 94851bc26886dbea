"""Sweeps: which elements their values make, and how a value reaches a job."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import UsageError
from radrm.jobfile import sweeps
from radrm.jobfile.radfile import JobFile, read_job_file, wrap_command
from radrm.jobfile.relations import ArrayOption
from radrm.jobfile.sweeps import array_of, axis_of, filled, sweep_of, with_table, with_values


def job(*params: str, table: str | None = None, **options: str) -> JobFile:
    raw = {"param": list(params), **options} if params else {**options}
    found = wrap_command(["python", "a b {lr}", "{lr}{seed}", "{other} ${lr}"], raw)
    return with_table(found, table) if table is not None else found


def elements(job_file: JobFile) -> list[dict[str, str]]:
    sweep = sweep_of(job_file)
    return [dict(sweep.values(number)) for number in range(len(sweep))]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("lr=1e-3,1e-4", ["1e-3", "1e-4"]),
        ("seed=0:3", ["0", "1", "2", "3"]),
        ("seed=0:7:3", ["0", "3", "6"]),
        ("x=-2:0,9, a b", ["-2", "-1", "0", "9", "a b"]),
        ("x=a=b", ["a=b"]),
        ("url=http://a:1", ["http://a:1"]),
    ],
)
def test_the_values_of_a_parameter(text: str, values: list[str]) -> None:
    assert [row for (row,) in axis_of(text).rows] == values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x=3:1", "larger number first; a range has it last"),
        ("x=0:3:0", "step of 0"),
        ("x=0:100000", "100001 numbers; the most is 100000"),
        ("x=0:60000,0:60000", "more than 100000 values"),
        ("x=a,,b", "a value of x is empty"),
        ("x=a\nb", "not printable text"),
        ("x=" + "y" * 4097, "not printable text of 1 to 4096"),
    ],
)
def test_values_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match="--param") as caught:
        sweep_of(job(text))
    assert message in str(caught.value)


def test_rows_change_slowest_and_the_last_parameter_fastest() -> None:
    found = elements(job("a=1,2", "b=x,y", table="c,d\n5,6\n7,8\n", params="f.csv"))
    expected = product((("5", "6"), ("7", "8")), "12", "xy")
    assert found == [{"c": c, "d": d, "a": a, "b": b} for (c, d), a, b in expected]


def test_a_table_is_read_as_spreadsheets_write_it() -> None:
    table = '\ufefflr , opt\r\n0.1, "ad, am"\r\n\r\n 0.2,sgd\r\n,\r\n'
    assert elements(job(table=table, params="-")) == [
        {"lr": "0.1", "opt": "ad, am"},
        {"lr": "0.2", "opt": "sgd"},
    ]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", "no values"),
        ("lr,seed\n", "no values"),
        ("lr,seed\n1,2\n1,2,3\n", "line 3: 3 values for 2 parameters"),
        ("lr;seed\n1;2\n", "line 1: 'lr;seed' is not a parameter's name"),
        ("a\n1\n,\n", None),
        ("a,b\n1,\n", "line 2: a value of b is empty"),
        ("a,a\n1,2\n", "parameter a is given twice"),
        ('a\n"1\n2"\n', "not printable text"),
        ("a\n" + "1\n" * 100_001, "more than 100000 rows"),
        ("a\n" + "1" * (1 << 20), "larger than 1048576 characters"),
    ],
)
def test_tables_that_are_refused(table: str, message: str | None) -> None:
    if message is None:
        assert elements(job(table=table, params="-")) == [{"a": "1"}]
        return
    with pytest.raises(UsageError) as caught:
        job(table=table, params="-")
    assert message in str(caught.value)


def test_a_sweep_is_bounded_as_a_whole() -> None:
    with pytest.raises(UsageError, match="100172 combinations of values; an array has at most"):
        sweep_of(job("a=0:316", "b=0:315"))
    with pytest.raises(UsageError, match=r"have \d+ bytes, and the most is 16777216"):
        sweep_of(job("a=0:9999", "b=" + "x" * 4000))
    with pytest.raises(UsageError, match="17 parameters; a sweep has at most 16"):
        sweep_of(job(*(f"p{n}=1" for n in range(17))))
    with pytest.raises(UsageError, match="its values were not submitted"):
        sweep_of(job(params="f.csv"))


def test_an_element_gets_its_values_in_command_name_logs_and_variables() -> None:
    asked = job("lr=1/2%", "seed=..", name="t-{lr}-{no}", output="{seed}/{lr}-%a", env=["A=1"])
    sweep = sweep_of(asked)
    one = with_values(asked, sweep.values(0))
    assert one.argv == ("python", "a b 1/2%", "1/2%..", "{other} $1/2%")
    assert one.name == "t-1_2%-{no}" and one.options.output == "_/1_2%%-%a"
    assert one.options.env == (("RADRM_PARAM_lr", "1/2%"), ("RADRM_PARAM_seed", ".."), ("A", "1"))
    assert one.raw == asked.raw
    script = read_job_file(b"#RAD --param lr=1,2\necho {lr}\n", "a.rad", {})
    assert with_values(script, (("lr", "1"),)).script == script.script, "no script is rewritten"


def test_the_command_line_replaces_a_parameter_of_the_file() -> None:
    script = b"#RAD --param lr=1,2 --param seed=0:4\ntrue\n"
    found = read_job_file(script, "a.rad", {"param": ["lr=3"]})
    assert array_of(found) == ArrayOption(0, 4, None)
    assert elements(found)[0] == {"lr": "3", "seed": "0"}


def test_how_many_elements_run_at_once() -> None:
    assert array_of(job("a=1,2,3", **{"at-once": "2"})) == ArrayOption(0, 2, 2)
    assert array_of(job(array="1-3%2")) == ArrayOption(1, 3, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"array": "0-3", "param": ["a=1"]}, "--array and --param each make an array"),
        ({"array": "0-3", "params": "f"}, "--array and --params each make an array"),
        ({"at-once": "2"}, "--at-once is for a sweep"),
        ({"max-fails": "2"}, "--max-fails is for arrays"),
        ({"array": "0-3", "at-once": "2"}, "write --array=0-9%4"),
    ],
)
def test_options_of_arrays_that_do_not_go_together(
    options: dict[str, str | list[str]], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        wrap_command(["true"], options)
    assert message in str(caught.value)


def test_lines_are_commands_of_a_shell() -> None:
    table = sweeps.table_of_lines('a "b", c\n\n  d | e  \n', "x")
    asked = with_table(wrap_command(list(sweeps.OF_LINES), {"params": "-"}), table)
    sweep = sweep_of(asked)
    assert len(sweep) == 2
    assert [with_values(asked, sweep.values(n)).argv[2] for n in (0, 1)] == ['a "b", c', "d | e"]
    with pytest.raises(UsageError, match="no command"):
        sweeps.table_of_lines(" \n\n", "x")


VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=8)


@given(
    st.dictionaries(st.sampled_from(["a", "b", "long"]), VALUES), st.text("ab{}long $", max_size=30)
)
def test_only_known_names_are_replaced_and_each_once(values: dict[str, str], text: str) -> None:
    parts = [text]
    for name, value in values.items():
        marked = [
            part.split(f"{{{name}}}") if i % 2 == 0 else [part] for i, part in enumerate(parts)
        ]
        parts = []
        for some in marked:
            for at, part in enumerate(some):
                parts += [value, part] if at else [part]
    assert filled(text, values) == "".join(parts)
