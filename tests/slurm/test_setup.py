"""The lines for Slurm's configuration, and the rules of job_submit.lua.

The rules run in Debian's Lua with tables that stand in for Slurm's; `test_commands.py` has a real
Slurm run them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from math import ceil
from typing import Any

import pytest

from radrm.config import SlurmConfig
from radrm.core.units import parse_seconds
from radrm.errors import UsageError
from radrm.slurm.asking import FORMAT, format_of
from radrm.slurm.commands.slurm import _node
from radrm.slurm.comment import started, waiting
from radrm.slurm.scripts import is_gpumem_asked, is_wrapped, unwrap, wrap
from radrm.slurm.setup import ClusterNode, gres_conf, job_submit_lua, slurm_conf, unequal

FIRST = "#!/usr/bin/env -S radrm slurm-step"

CONFIG = SlurmConfig(partition="gpus", gres="vram", default_gpumem="5G", local_wait_s=600)
NODES = [ClusterNode("g[1-2]", 2 * 40960, 2), ClusterNode("h1", 40960)]
LUA = shutil.which("lua5.3") or shutil.which("lua5.4") or shutil.which("lua")
NO_VAL = 4294967294

STAND_IN = """
slurm = { SUCCESS = 0, ERROR = -1, NO_VAL = 4294967294, said = "" }
function slurm.log_user(text) slurm.said = slurm.said .. text end

-- What a job's field gres is set to is its tres_per_node, as in Slurm: each part gets a prefix
local function as_slurm(job, prefix)
   local function set(_, name, value)
      if name ~= "gres" then return rawset(job, name, value) end
      value = (prefix .. value):gsub(",", "," .. prefix):gsub(prefix .. prefix, prefix)
      rawset(job, "tres_per_node", value)
   end
   return setmetatable({}, { __index = job, __newindex = set })
end
"""
SHOW = """
local function quoted(text) return '"' .. text:gsub('[%c"\\\\]', function(c)
   return string.format("\\\\u%04x", c:byte()) end) .. '"' end
local parts = {'"code":' .. code, '"said":' .. quoted(slurm.said)}
for key, value in pairs(job) do
   parts[#parts + 1] = quoted(key) .. ":" ..
      (type(value) == "string" and quoted(value) or tostring(value))
end
print("{" .. table.concat(parts, ",") .. "}")
"""


def decided(
    call: str = "slurm_job_submit(as_slurm(job, PREFIX), {}, 1000)",
    prefix: str = "gres:",
    nodes: list[ClusterNode] = NODES,
    **job: Any,
) -> dict[str, Any]:
    """What the rules make of a job, and what they say. `prefix`: Slurm's of a GRES."""
    if LUA is None:
        pytest.skip("Lua is not installed (Debian: lua5.3)")
    fields = {"partition": "gpus", "script": "#!/bin/sh\necho\n", "min_nodes": NO_VAL, **job}
    table = ", ".join(f"{k} = {json.dumps(v)}" for k, v in fields.items() if v is not None)
    rules = job_submit_lua(CONFIG, nodes).replace("\nreturn slurm.SUCCESS\n", "\n")
    given = f"local job, PREFIX = {{ {table} }}, {json.dumps(prefix)}"
    text = f"{STAND_IN}\n{rules}\n{given}\nlocal code = {call}\n{SHOW}"
    done = subprocess.run([LUA, "-"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_script_runs_through_the_step_and_asks_for_the_default() -> None:
    found = decided()
    assert found["code"] == 0 and found["requeue"] == 1
    assert found["tres_per_node"] == "gres:vram:5120"
    assert is_wrapped(found["script"])
    assert unwrap(found["script"]) == ("#!/bin/sh\necho\n", {})


@pytest.mark.parametrize(
    "text",
    [
        *[
            "90",
            "90.5",
            "1:30",
            "0:01:30",
            "26:00:00",
            "1-00",
            "1-12:30",
            "1-00:00:00",
            "4h",
            "1h30m",
            "2D",
            "1.5h",
        ],
        "'2 days'",
    ],
)
def test_the_limit_of_a_script_is_slurms(text: str) -> None:
    script = f"#!/bin/sh\n#RAD --name=a --time={text}\necho\n"
    found = decided(script=script, time_limit=NO_VAL)
    assert found["time_limit"] == ceil(parse_seconds(text.strip("'")) / 60)
    assert unwrap(found["script"]) == (script, {}), "the script says it"
    assert decided(script=script, time_limit=7)["time_limit"] == 7, "what was typed counts"
    typed = wrap(script, ["--time=3h"])
    assert decided(script=typed, time_limit=NO_VAL)["time_limit"] == 180


@pytest.mark.parametrize("text", ["x", "1:3", "4h5", "-1", "0", "99999999d", "1-2-3"])
def test_a_script_without_a_known_limit_has_slurms(text: str) -> None:
    script = f"#!/bin/sh\n#RAD --time={text}\necho\n"
    assert decided(script=script, time_limit=NO_VAL)["time_limit"] == NO_VAL


@pytest.mark.parametrize("script", [f"{FIRST}\necho\n", wrap("echo\n", ["--gpus=1"])])
def test_what_runs_through_the_step_already_stays(script: str) -> None:
    found = decided(script=script, time_limit=120, tres_per_node="gres:vram:9")
    assert (found["script"], found["time_limit"]) == (script, 120)
    assert found["tres_per_node"] == "gres:vram:9"


@pytest.mark.parametrize("script", ["#!/bin/sh\necho\n", f"{FIRST}\n#!/bin/sh\necho\n"])
def test_the_default_is_not_taken_for_the_users_wish(script: str) -> None:
    default, wish = decided(script=script), decided(script=script, tres_per_node="gres:vram:9")
    assert (is_gpumem_asked(default["script"]), is_gpumem_asked(wish["script"])) == (False, True)
    assert unwrap(default["script"])[0] == unwrap(wish["script"])[0] == "#!/bin/sh\necho\n"


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("", "gres:vram:5120"),
        ("gres:fast:1", "gres:fast:1,gres:vram:5120"),
        ("gres:fast:1,gres:slow:2", "gres:fast:1,gres:slow:2,gres:vram:5120"),
        ("gres:vram:7", "gres:vram:7"),
    ],
)
def test_the_default_is_added_to_what_was_asked(asked: str, given: str) -> None:
    assert decided(tres_per_node=asked)["tres_per_node"] == given
    newer = decided(prefix="gres/", tres_per_node=asked.replace("gres:", "gres/"))
    assert newer["tres_per_node"] == given.replace("gres:", "gres/")


@pytest.mark.parametrize(
    ("lines", "mib"),
    [
        ("#RAD --name=a --gpu-memory=6G", 8192),
        ("#RAD --gpu-memory=6144M --gpus=2", 16384),
        ("#RAD --gpus 2\n#RAD --gpu-memory 6.5G", 2 * (6656 + 2048)),
        ("#RAD --gpu-memory=6144", 8192),
        ("#RAD --gpu-memory=6g", 8192),
        ("#RAD --gpu-memory=6gib:8gib", 8192),
        ("#RAD --gpu-memory=4096k", 2052),
        ("#RAD --gpu-memory=\"6G\" --gpus='2'", 16384),
        ("#RAD --gpu-memory=20GiB:30GiB", 20480 + 2048),
        ("#RAD --gpu-memory=79G", 81920),
        ("#RAD --gpu-memory=81G", 82944),
        ("#RAD --gpus=2", 2 * 5120),
        ("#RAD --gpu-memory=auto", 5120),
        ("# a note\n\n#RADICAL --gpu-memory=7G", 5120),
        ("echo\n#RAD --gpu-memory=7G", 5120),
        ("#RAD --gpu-memory=9999999999T", 5120),
    ],
)
def test_what_the_script_declares_is_asked_for(lines: str, mib: int) -> None:
    found = decided(script=f"#!/bin/sh\n{lines}\ntrain\n")
    assert found["tres_per_node"] == f"gres:vram:{mib}"
    assert not is_gpumem_asked(found["script"])


@pytest.mark.parametrize(
    ("lines", "asked", "nodes"),
    [
        ("#RAD --gpu-memory=40G", None, None),
        ("#RAD --gpu-memory=41G", None, "g[1-2]"),
        ("#RAD --gpus=3", "h2", "h2,g[1-2]"),
        ("#RAD --gpus=2 --gpu-memory=30G", None, None),
        ("#RAD --gpus=9", None, None),
        ("#RAD-OPTION --gpus=1\n#RAD --gpus=3", None, None),
    ],
)
def test_a_job_does_not_go_to_nodes_that_could_never_run_it(
    lines: str, asked: str | None, nodes: str | None
) -> None:
    """Where none could, Slurm is asked all the same."""
    known = [NODES[0], ClusterNode("k1", 4 * 81920, 4)]
    found = decided(script=f"#!/bin/sh\n{lines}\ntrain\n", exc_nodes=asked, nodes=known)
    assert found.get("exc_nodes") == nodes


def test_a_job_without_gpus_asks_for_none() -> None:
    found = decided(script="#!/bin/sh\n#RAD --gpus=0\necho\n")
    assert found["code"] == 0 and "tres_per_node" not in found


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ({"tres_per_node": "gres:gpu:2"}, "--gres=vram:MIB"),
        ({"tres_per_node": "gres:vram:5,gres:gpu:a100:1"}, "--gres=vram:MIB"),
        ({"tres_per_job": "gres:gpu:1"}, "--gres=vram:MIB"),
        ({"tres_per_task": "gres/gpu=1"}, "--gres=vram:MIB"),
        ({"script": None}, "batch jobs only"),
        ({"script": ""}, "batch jobs only"),
        ({"min_nodes": 2}, "jobs of one node"),
        ({"partition": "whole,gpus"}, "name it alone"),
        ({"shared": 0}, "leave out --exclusive"),
        ({"shared": 2}, "leave out --exclusive"),
    ],
)
def test_what_does_not_fit_the_partition_is_refused(job: dict[str, Any], said: str) -> None:
    found = decided(**job)
    assert found["code"] == -1
    assert found["said"].startswith("radrm: ") and said in found["said"]


@pytest.mark.parametrize("partition", ["whole", "whole,gpus2", None])
def test_other_partitions_are_left_alone(partition: str | None) -> None:
    given = {"script": None, "tres_per_node": "gres:gpu:8", "min_nodes": 4, "shared": 0}
    found = decided(partition=partition, **given)
    assert found["code"] == 0 and "requeue" not in found


@pytest.mark.parametrize(("asked", "given"), [(None, 1), (1, 1), (65534, 1), (0, 0)])
def test_no_requeue_is_respected(asked: int | None, given: int) -> None:
    assert decided(requeue=asked, shared=65534)["requeue"] == given


@pytest.mark.parametrize(
    ("job", "record", "code"),
    [
        ({"partition": None}, "gpus", 0),
        ({"partition": None, "tres_per_node": "gres:gpu:1"}, "gpus", -1),
        ({"partition": "gpus"}, "whole", -1),
        ({"partition": "gpus,whole"}, "whole", -1),
        ({"partition": "gpus,whole"}, "gpus", -1),
        ({"partition": None, "shared": 0}, "gpus", -1),
        ({"partition": "whole"}, "gpus", -1),
        ({"partition": "whole", "tres_per_node": "gres:gpu:1"}, "whole", 0),
    ],
)
def test_a_change_must_not_lead_around_the_rules(
    job: dict[str, Any], record: str, code: int
) -> None:
    call = f'slurm_job_modify(job, {{ partition = "{record}" }}, {{}}, 1000)'
    assert decided(call, **job)["code"] == code


@pytest.mark.parametrize(
    ("before", "after", "limit_min", "found_min"),
    [
        ("", waiting("x", 0, 30), 60, 90),
        (waiting("x", 0, 30), started(7), 90, 67),
        (waiting("x", 0, 30), started(7), 120, 97),  # an administrator has added half an hour
        (waiting("x", 0, 30), started(7), 5, 8),  # or has taken nearly all
        (waiting("x", 1, 30), waiting("y (limit +5 min, ", 1, 30), 90, None),
        (waiting("x", 1, 30), waiting("x", 2), 90, 60),
        (started(7), "radrm:gpu_s=3", 67, None),
        (started(7), "site:7", 67, None),
        (started(7), None, 67, None),
        ("", waiting("x", 0, 30), NO_VAL + 1, None),
    ],
)
def test_a_wait_is_added_to_the_limit_that_a_job_has(
    before: str, after: str | None, limit_min: int, found_min: int | None
) -> None:
    record = f'{{ partition = "gpus", time_limit = {limit_min}, admin_comment = "{before}" }}'
    found = decided(f"slurm_job_modify(job, {record}, {{}}, 0)", admin_comment=after)
    assert found.get("time_limit") == found_min


def test_the_lines_name_what_the_configuration_names() -> None:
    conf, gres = slurm_conf(CONFIG, NODES), gres_conf(CONFIG, NODES)
    live = [line for line in conf.splitlines() if not line.startswith("#")]
    assert live[0].startswith("PartitionName=gpus Nodes=g[1-2],h1 OverSubscribe=FORCE:1")
    assert len(live) == 1, "all else is appended to lines that a site has"
    assert gres.splitlines() == [
        "NodeName=g[1-2] Name=vram Count=81920 Flags=CountOnly",
        "NodeName=h1 Name=vram Count=40960 Flags=CountOnly",
    ]
    assert "@" not in job_submit_lua(CONFIG).replace('"$@"', "")
    assert format_of(job_submit_lua(CONFIG)) == FORMAT


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ([("g1", 80, 0), ("g2", 80, 0)], False),
        ([("g1", 80, 0), ("g2", 40, 0)], True),
        ([("g1", 80, 2), ("g2", 40, 0)], True),
        ([("g1", 80, 2), ("g2", 40, 1)], False),
    ],
)
def test_nodes_that_differ_are_named(nodes: list[tuple[str, int, int]], told: bool) -> None:
    assert (unequal([ClusterNode(*each) for each in nodes]) is not None) is told


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("g[1-8]:640G", ("g[1-8]", 655_360, 0)),
        ("g[1-8]:8x80G", ("g[1-8]", 655_360, 8)),
        ("g1,h[01-03]:2x81559M", ("g1,h[01-03]", 163_118, 2)),
        *((text, None) for text in ("g[1-3:80G", "g1", "g1:", ":80G", "g1:0x80G", "g1:x80G")),
        *((text, None) for text in ("g 1:80G", "g]1:80G", "g$(x):80G", "g[3-1]:80G")),
    ],
)
def test_what_a_node_is(text: str, found: tuple[str, int, int] | None) -> None:
    if found is None:
        with pytest.raises(UsageError):
            _node(text)
    else:
        assert _node(text) == ClusterNode(*found)
