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
from radrm.slurm.asking import FORMAT, format_of
from radrm.slurm.setup import ClusterNode, gres_conf, job_submit_lua, slurm_conf
from radrm.slurm.submitting import FIRST, is_gpumem_asked, unwrap

CONFIG = SlurmConfig(partition="gpus", gres="vram", default_gpumem="5G", local_wait_s=600)
NODES = [ClusterNode("g[1-2]", 81920), ClusterNode("h1", 40960)]
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
    **job: Any,
) -> dict[str, Any]:
    """What the rules make of a job, and what they say. `prefix`: Slurm's of a GRES."""
    if LUA is None:
        pytest.skip("Lua is not installed (Debian: lua5.3)")
    fields = {"partition": "gpus", "script": "#!/bin/sh\necho\n", "min_nodes": NO_VAL, **job}
    table = ", ".join(f"{k} = {json.dumps(v)}" for k, v in fields.items() if v is not None)
    rules = job_submit_lua(CONFIG, NODES).replace("\nreturn slurm.SUCCESS\n", "\n")
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
    assert found["script"].startswith(FIRST + "\n")
    assert unwrap(found["script"]) == ("#!/bin/sh\necho\n", {})


def test_its_time_limit_counts_from_its_real_start() -> None:
    found = decided(time_limit=120)
    assert found["time_limit"] == 130
    assert unwrap(found["script"])[1] == {"time": "7200"}
    assert unwrap(decided(time_limit=NO_VAL)["script"])[1] == {}


@pytest.mark.parametrize(
    ("limit", "most", "code"),
    [(120, 130, 0), (121, 130, -1), (NO_VAL, 130, 0), (525000, 4294967295, 0), (120, 5, -1)],
)
def test_the_limit_of_the_partition_includes_the_wait(limit: int, most: int, code: int) -> None:
    call = f"slurm_job_submit(as_slurm(job, PREFIX), {{ gpus = {{ max_time = {most} }} }}, 1000)"
    found = decided(call, time_limit=limit)
    assert found["code"] == code
    if code:
        assert f"allows {most} minutes, of which 10 are for the wait" in found["said"]
        assert found["said"].endswith(f"--time={max(0, most - 10)}")
    longer = decided(call, time_limit=limit + 10, script=f"{FIRST}\necho\n")
    assert longer["code"] == code or limit == NO_VAL, "radrm submit --cluster adds the wait itself"


@pytest.mark.parametrize(
    "text", ["90", "90.5", "1:30", "0:01:30", "26:00:00", "1-00:00:00", "4h", "1h30m", "2D", "1.5h"]
)
def test_the_limit_of_a_script_is_slurms_too(text: str) -> None:
    script = f"#!/bin/sh\n#RAD --name=a --time={text}\necho\n"
    found = decided(script=script, time_limit=NO_VAL)
    assert found["time_limit"] == ceil(parse_seconds(text) / 60) + 10
    assert unwrap(found["script"]) == (script, {}), "the script says it"
    typed = decided(script=script, time_limit=7)
    assert (typed["time_limit"], unwrap(typed["script"])[1]) == (17, {"time": "420"})


@pytest.mark.parametrize("text", ["x", "1:3", "4h5", "-1", "0", "99999999d", "1-2-3"])
def test_a_script_without_a_known_limit_has_slurms(text: str) -> None:
    script = f"#!/bin/sh\n#RAD --time={text}\necho\n"
    assert decided(script=script, time_limit=NO_VAL)["time_limit"] == NO_VAL


def test_what_runs_through_the_step_already_stays() -> None:
    script = f"{FIRST}\necho\n"
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
        ({"partition": "whole", "tres_per_node": "gres:gpu:1"}, "whole", 0),
    ],
)
def test_a_change_must_not_lead_around_the_rules(
    job: dict[str, Any], record: str, code: int
) -> None:
    call = f'slurm_job_modify(job, {{ partition = "{record}" }}, {{}}, 1000)'
    assert decided(call, **job)["code"] == code


def test_the_lines_name_what_the_configuration_names() -> None:
    conf, gres = slurm_conf(CONFIG, NODES), gres_conf(CONFIG, NODES)
    assert "PartitionName=gpus Nodes=g[1-2],h1 OverSubscribe=FORCE:1" in conf
    assert "NodeName=g[1-2] Gres=vram:81920" in conf and "JobRequeue=1" in conf
    assert gres.splitlines() == [
        "NodeName=g[1-2] Name=vram Count=81920 Flags=CountOnly",
        "NodeName=h1 Name=vram Count=40960 Flags=CountOnly",
    ]
    assert "@" not in job_submit_lua(CONFIG)
    assert format_of(job_submit_lua(CONFIG)) == FORMAT
