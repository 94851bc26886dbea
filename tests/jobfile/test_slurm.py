"""Options of sbatch become ours, are left out with a note, or are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import UsageError
from radrm.jobfile.parsing import typed_whole
from radrm.jobfile.slurm import Slurm, directives, of_variables, read, translate
from radrm.jobfile.slurm.amounts import parse_memory, parse_time
from radrm.jobfile.slurm.options import BECOMES, BY_NAME, MAYBE, NONE, OPTIONS, VALUE
from radrm.jobfile.slurm.translation import _MEANINGS
from radrm.jobfile.slurm.words import split
from tools import slurm_reference


def sbatch(*words: str) -> Slurm:
    options, rest = read(words, "command line")
    assert not rest
    return translate(options, "/home/ada", "box")


OUTPUT = {"output": "slurm-%j.out"}
TABLE = {
    ("-J", "train"): {"name": "train"},
    ("-Jtrain",): {"name": "train"},
    ("--job-name=train",): {"name": "train"},
    ("--gpus=2",): {"gpus": "2"},
    ("-G", "a100:2"): {"gpus": "2", "gpu-type": "a100"},
    ("--gres=gpu",): {"gpus": "1"},
    ("--gres=gpu:3",): {"gpus": "3"},
    ("--gres=gpu:a100",): {"gpus": "1", "gpu-type": "a100"},
    ("--gres=gpu:a100:2",): {"gpus": "2", "gpu-type": "a100"},
    ("--gres=none",): {"gpus": "0"},
    ("--gres=gpu:2", "--gpus-per-node=2"): {"gpus": "2"},
    ("-t", "90"): {"time": "5400s"},
    ("-t", "1:30"): {"time": "90s"},
    ("-t", "1:30:00"): {"time": "5400s"},
    ("-t", "2-0"): {"time": "172800s"},
    ("-t", "1-2:30"): {"time": "95400s"},
    ("-t", "UNLIMITED"): {},
    ("-c", "4"): {"cpus": "4"},
    ("-c4",): {"cpus": "4"},
    ("--mem=16G",): {"memory": "16384M"},
    ("--mem=1000",): {"memory": "1000M"},
    ("--mem=1000K",): {"memory": "1M"},
    ("--mem-per-cpu=2G", "-c", "3"): {"cpus": "3", "memory": "6144M"},
    ("--mem-per-gpu=10G", "-G2"): {"gpus": "2", "memory": "20480M"},
    ("-a", "[0-9]%2"): {"array": "0-9%2", "output": "slurm-%A_%a.out"},
    ("-a", "0-9%2"): {"array": "0-9%2", "output": "slurm-%A_%a.out"},
    ("-o", "%x-%J.%t"): {"output": "%x-%j.0"},
    ("-o", "a", "-e", "b"): {"output": "a", "error": "b"},
    ("-o", "/dev/stdout", "-e", "/dev/stderr"): {},
    ("-o", "a", "-e", "/proc/self/fd/2"): {"output": "a"},
    ("-o", "/dev/null"): {"output": "/dev/null"},
    ("-N1", "-n4", "--ntasks-per-node=2"): {"cpus": "4"},
    ("-n8", "-c2", "--overcommit", "--gpu-bind=single:1"): {"cpus": "2"},
    ("-d", "afterok:12:13,afterany:14"): {"after": ["12", "13", "14:any"]},
    ("-d", "afternotok:12_3"): {"after": ["12_3:failed"]},
    ("-D", "/data"): {"chdir": "/data"},
    ("--export=ALL,A=1,B=x y",): {"env": ["A=1", "B=x y"]},
    ("--nice",): {"priority": "-100"},
    ("--nice=5000",): {"priority": "-1000"},
    ("--nice=-7",): {"priority": "7"},
    ("-H",): {"hold": True},
    ("--signal=B:10@30", "-t", "5"): {"signal": "USR1@30", "time": "300s"},
    ("--signal=b:sigusr2@9", "-t", "5"): {"signal": "USR2@9", "time": "300s"},
    ("--gres=GPU:2",): {"gpus": "2"},
    ("-d", "AfterOK:12"): {"after": ["12"]},
    ("--signal=TERM", "-t", "5"): {"signal": "TERM@60", "time": "300s"},
    ("-b", "now+2hours"): {"begin": "+2h"},
    ("-b", "now+1week"): {"begin": "+7d"},
    ("-b", "now+90"): {"begin": "+90s"},
    ("-b", "now"): {},
    ("--begin=2030-01-31T18:00",): {"begin": "2030-01-31T18:00"},
    ("--requeue",): {"requeue": True},
    ("--no-requeue", "-N1", "-n", "1", "--ntasks-per-node=1"): {},
    ("--comment=two words",): {"comment": "two words"},
    ("--exclusive",): {"collocation": "exclusive"},
    ("--gpu-memory=12G", "-G1"): {"gpus": "1", "gpu-memory": "12G"},
    ("-p", "gpu", "--qos=high", "-A", "lab", "-v"): {},
}  # fmt: skip


def test_what_has_a_meaning_here() -> None:
    for words, meaning in TABLE.items():
        found = sbatch(*words).raw
        assert found == {"gpus": "0", **OUTPUT, **meaning}, words
        typed_whole(found)


REFUSED = {
    ("-N", "2"): "--nodes: '2': this is one server",
    ("-n", "8", "--ntasks-per-node=4"): "need several nodes",
    ("-N", "2", "-n", "8", "--ntasks-per-node=4"): "--nodes: '2'",
    ("-n", "0"): "is not a whole number from 1",
    ("-G", ":"): "is not [TYPE:]NUMBER",
    ("--gpus=a100:1,v100:1",): "several kinds of GPUs",
    ("-c2", "--cpus-per-gpu=2", "-G1"): "does not go with --cpus-per-task",
    ("--mem=1G", "--mem-per-cpu=1G"): "does not go with --mem;",
    ("--gpus-per-socket=1",): "needs --sockets-per-node",
    ("--gres=shard:4",): "jobs share GPUs here without it",
    ("-C", "gpu32g", "-G1"): "is no type of GPU",
    ("-C", "gpu&hbm80g", "-G1"): "is no type of GPU",
    ("-C", "a100&v100", "-G1"): "no GPU is of two types",
    ("--container=/oci",): "apptainer exec",
    ("--container-image=nvcr.io#x", "-n1"): "pyxis",
    ("--gpu=1",): "--gpu is ambiguous: --gpu-bind",
    ("--hold=yes",): "takes no value",
    ("--mail-type=SOON",): "is none of BEGIN",
    ("--uid=0",): "sudo -u",
    (":", "-n1"): "several parts",
    ("--gres=gpu:a100:1,gpu:v100:1",): "several kinds of GPUs",
    ("--gres=gpu:2", "--gpus=3"): "2 differs from the 3 GPUs",
    ("-t", "soon"): "is not a time",
    ("--mem=lots",): "is not an amount",
    ("-d", "afterok:1?afterok:2"): "radrm waits for all",
    ("-d", "after:1"): "write afterany",
    ("-d", "soon:1"): "is none of afterok",
    ("-i", "in.txt"): "redirect it in the script",
    ("--input=in.txt",): "redirect it in the script",
    ("--gpuz=1",): "--gpuz: no option of sbatch",
    ("-a", "9-1"): "--array: '9-1' is not an array",
    ("-t",): "--time needs a value",
    ("--bogus", "job.sbatch"): "--bogus: no option of sbatch",
    ("--container-mounts", "/a"): "pyxis",
    ("-o", "%q"): "is not a pattern",
    ("-b", "now+2fortnights"): "is no unit",
    ("-b", "whenever"): "--begin: 'whenever'",
}


def test_what_would_make_another_job() -> None:
    for words, why in REFUSED.items():
        with pytest.raises(UsageError) as error:
            sbatch(*words)
        said = str(error.value)
        assert why in said and said.startswith("command line: ") and "\n" not in said, words


def test_what_is_left_out_is_named() -> None:
    (note,) = sbatch("-p", "gpu", "--account=lab").notes
    assert note.endswith("is left out: --partition, --account")


SCRIPT = """#!/bin/bash
# SBATCH -J comment
#SBATCH -J first  # a comment
#SBATCH --mem=1G
#
#SBATCH --mem=2G --comment='two words'
echo
#SBATCH -J late
"""


def test_the_lines_of_a_script() -> None:
    found = directives(SCRIPT, "job.sbatch")
    assert [(each.name, each.value, each.where) for each in found] == [
        ("job-name", "first", "job.sbatch line 3"),
        ("mem", "1G", "job.sbatch line 4"),
        ("mem", "2G", "job.sbatch line 6"),
        ("comment", "two words", "job.sbatch line 6"),
    ]
    assert translate(found, "/", "box").raw["memory"] == "2048M"


def test_the_command_line_overrides_the_script() -> None:
    options, rest = read(["--mem", "4G", "job.sbatch", "-J", "argument"], "command line")
    assert rest == ["job.sbatch", "-J", "argument"]
    assert translate([*directives(SCRIPT, "s"), *options], "/", "box").raw["memory"] == "4096M"


@pytest.mark.parametrize(
    "line", ["#SBATCH -J 'open", "#SBATCH job", "#SBATCH " + "x" * 9000, "#SBATCH hetjob"]
)
def test_a_line_that_cannot_be_read_is_named(line: str) -> None:
    with pytest.raises(UsageError, match=r"^s line 1: .*"):
        directives(line, "s")


def test_a_dash_of_an_editor_was_two_minuses() -> None:
    for word, meant in (("\u2013gres=gpu:1", "--gres=gpu:1"), ("\u2013n4", "-n4")):
        with pytest.raises(UsageError, match=f"write '{meant}'"):
            directives(f"#SBATCH {word}", "s")


def test_variables() -> None:
    found = sbatch("--gpus=2", "-c", "3", "-a", "1,5,9", "-n", "1").variables
    assert found["SLURM_GPUS"] == "2" and found["SLURM_CPUS_PER_TASK"] == "3"
    counts = [found[f"SLURM_ARRAY_TASK_{each}"] for each in ("COUNT", "MIN", "MAX")]
    assert counts == ["3", "1", "9"] and found["SLURM_NTASKS"] == "1"
    assert "SLURM_NTASKS" not in sbatch().variables  # PyTorch Lightning would take it for a task


def test_the_environment_that_a_job_keeps() -> None:
    assert sbatch("--export=ALL").kept is None
    assert sbatch().kept is None
    kept = sbatch("--export=DATA,X=1").kept
    assert "DATA" in kept and "HOME" in kept and "X" not in kept


OF_THE_MANUAL = {
    VALUE: (
        "A:account acctg-freq a:array batch bb bbf b:begin D:chdir cluster-constraint M:clusters "
        "comment C:constraint container container-id S:core-spec cores-per-socket cpu-freq "
        "cpus-per-gpu c:cpus-per-task deadline delay-boot d:dependency m:distribution e:error "
        "x:exclude export export-file extra B:extra-node-info gid gpu-bind gpu-freq G:gpus "
        "gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint i:input J:job-name "
        "kill-on-invalid-dep L:licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu "
        "mem-per-gpu mincpus network F:nodefile w:nodelist N:nodes n:ntasks ntasks-per-core "
        "ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode o:output p:partition prefer "
        "priority profile q:qos reservation resources segment signal sockets-per-node switches "
        "thread-spec threads-per-core t:time time-min tmp tres-bind tres-per-task uid "
        "wait-all-nodes wckey wrap "
    ),
    NONE: (
        "consolidate-segments contiguous get-user-env h:help H:hold ignore-pbs no-requeue "
        "O:overcommit s:oversubscribe parsable Q:quiet reboot spread-job spread-segments stepmgr "
        "test-only usage use-min-nodes v:verbose V:version W:wait "
    ),
    MAYBE: ("exclusive nice k:no-kill oom-kill-step propagate requeue resv-ports "),
}
"""The options of sbatch(1) of Slurm 25.11, each behind its short name."""


def test_every_option_of_the_manual_page_is_declared() -> None:
    named = 0
    for takes, words in OF_THE_MANUAL.items():
        for word in words.split():
            short, _, name = word.rpartition(":")
            option = BY_NAME[name]
            assert (option.name, option.short) == (name, short), word
            # It had a value in earlier releases.
            assert option.takes == takes or name == "get-user-env", word
            named += 1
    assert named == 112


def test_each_option_is_declared_once_and_has_a_meaning_if_it_says_so() -> None:
    spellings = [*(name for each in OPTIONS for name in (each.name, *each.names))]
    spellings += [each.short for each in OPTIONS if each.short]
    assert len(set(spellings)) == len(spellings)
    assert {each.name for each in OPTIONS if each.fate == BECOMES} == set(_MEANINGS)


def test_no_option_is_unknown() -> None:
    """Alone with any value, each is translated, named, or refused with a reason of its own."""
    for option in OPTIONS:
        word = f"--{option.name}" + ("" if option.takes == NONE else "=1")
        try:
            found = sbatch(word, "--sockets-per-node=1")
        except UsageError as error:
            assert "no option of sbatch" not in str(error)
        else:
            typed_whole(found.raw)


# Each beside the words of sbatch that mean the same.
SPELLINGS = {
    ("--out=a", "--err", "b"): ("-o", "a", "-e", "b"),
    ("--job=x",): ("--job-name=x",),
    ("--tasks-per-node=2",): ("--ntasks-per-node=2",),
    ("--workdir=/data",): ("-D", "/data"),
    ("-HN1", "-n4"): ("--hold", "--nodes=1", "--ntasks=4"),
    ("--exclusive=user",): ("--exclusive",),
    ("--requeue=expedite",): ("--requeue",),
    ("--ntasks-per-tres=2", "-G1"): ("--ntasks-per-gpu=2", "--gpus=1"),
}


@pytest.mark.parametrize("words", SPELLINGS, ids=" ".join)
def test_spellings(words: tuple[str, ...]) -> None:
    assert sbatch(*words).raw == sbatch(*SPELLINGS[words]).raw


def tasks(gpus: int, cpus: int | None, count: int | None) -> dict[str, str]:
    found = {"gpus": str(gpus), "cpus": cpus and str(cpus), "tasks": count and str(count)}
    return {name: value for name, value in found.items() if value is not None}


AMOUNTS = {
    ("-n", "4", "--gpus-per-task=1", "-c", "2"): tasks(4, 8, 4),
    ("--ntasks-per-node=4", "--gres=gpu:4", "-c", "8"): tasks(4, 32, 4),
    ("--ntasks=8", "--ntasks-per-node=8", "--gpus-per-node=h100:8"): tasks(8, 8, 8),
    ("--gpus=2", "--ntasks-per-gpu=2"): tasks(2, 4, 4),
    ("-n", "4", "--ntasks-per-gpu=2"): tasks(2, 4, 4),
    ("--gpus=4", "--gpus-per-task=2"): tasks(4, 2, 2),
    ("--gres=gpu:2", "--cpus-per-gpu=6"): tasks(2, 12, None),
    ("-G1", "--cpus-per-gpu=4", "--ntasks-per-gpu=1"): tasks(1, 4, 1),
    ("--gpus-per-socket=2", "--sockets-per-node=2"): tasks(4, None, None),
    ("-n2", "--tres-per-task=cpu=3,gres/gpu:a100:1"): tasks(2, 6, 2),
    ("-n", "4", "-N1-2"): tasks(0, 4, 4),
    ("--mincpus=16", "-c4"): tasks(0, 16, None),
}


@pytest.mark.parametrize("words", AMOUNTS, ids=" ".join)
def test_amounts_of_tasks_and_gpus(words: tuple[str, ...]) -> None:
    found = sbatch(*words)
    seen = {name: found.raw[name] for name in ("gpus", "cpus") if name in found.raw}
    if "SLURM_NTASKS" in found.variables:
        seen["tasks"] = found.variables["SLURM_NTASKS"]
    assert seen == AMOUNTS[words]
    typed_whole(found.raw)


MEMORY = {
    ("--mem-per-gpu=10G", "--gres=gpu:2"): "20480M",
    ("--mem-per-cpu=2G", "-n4", "-c2"): "16384M",
    ("--mem-per-cpu=2G", "--cpus-per-gpu=4", "-G2"): "16384M",
    ("--mem-per-cpu=4G",): "4096M",
    ("--mem=0",): None,
    ("--tres-per-task=mem=2G", "-n3"): "6144M",
}


@pytest.mark.parametrize("words", MEMORY, ids=" ".join)
def test_memory_of_the_whole_job(words: tuple[str, ...]) -> None:
    assert sbatch(*words).raw.get("memory") == MEMORY[words]


def test_what_is_typed_overrides_what_excludes_it_in_the_script() -> None:
    script = "#SBATCH --gres=gpu:4 --mem=8G -c4 --mail-type=END\n"
    options, _ = read(["--gpus=1", "--mem-per-cpu=1G", "--cpus-per-gpu=2"], "command line")
    found = translate([*directives(script, "job"), *options], "/", "box").raw
    assert (found["gpus"], found["cpus"], found["memory"]) == ("1", "2", "2048M")


GPUS = {
    ("-C", "a100", "-G1"): {"gpu-type": "a100"},
    ("-C", "a100|v100", "-G1"): {"gpu-type": "a100|v100"},
    ("-C", "[rtx_3090|2080ti]", "-G1"): {"gpu-type": "rtx_3090|2080ti"},
    ("-C", "a100-80gb&ib", "-G1"): {"gpu-type": "a100-80gb"},
    ("-C", "skylake", "-G1"): {},
    ("-C", "epyc7742|c32|hdr100", "-G1"): {},
    ("-C", "volta|ampere", "-G1"): {"gpu-type": "volta|ampere"},
    ("-C", "a100_80&nvlink", "-G1"): {"gpu-type": "a100_80"},
    ("-C", "gpu", "-G1"): {},
    ("-C", "any-A100", "-G1"): {"gpu-type": "A100"},
    ("-C", "a100-80gb,ib", "--gres=gpu:1,lscratch:50"): {"gpu-type": "a100-80gb"},
    ("-C", "v100", "--gres=gpu:tesla:1"): {"gpu-type": "tesla"},
    ("--prefer=h100", "-G1"): {"prefer-gpus": "h100"},
    ("--gres=gpu:a100_3g.20gb:1",): {"gpu-type": "a100", "mig-profile": "3g.20gb"},
    ("--gres=gpu:1g.10gb:1",): {"mig-profile": "1g.10gb"},
    ("--gpus=h100",): {"gpu-type": "h100"},
    ("--tres-per-task=cpu=2,gres/gpu:a100:1",): {"gpu-type": "a100"},
    ("--gpus-per-task=v100:1", "-n1"): {"gpu-type": "v100"},
}


@pytest.mark.parametrize("words", GPUS, ids=" ".join)
def test_types_of_gpus(words: tuple[str, ...]) -> None:
    found = sbatch(*words).raw
    names = ("gpu-type", "prefer-gpus", "mig-profile")
    assert {name: found[name] for name in names if name in found} == GPUS[words]
    assert found["gpus"] == "1"


def test_a_feature_of_gpus_without_a_gpu_is_named() -> None:
    for feature in ("gpu", "a100"):
        assert any("add --gpus=1" in note for note in sbatch("-C", feature).notes)
    assert sbatch("-C", "a100", "-G1").notes == ()


def test_an_amount_for_each_gpu_without_a_gpu_is_named() -> None:
    for option in ("--cpus-per-gpu=8", "--mem-per-gpu=8G", "--ntasks-per-gpu=2"):
        assert any("add --gpus=1" in note for note in sbatch(option).notes), option
        assert sbatch(option, "-G1").notes == ()
    assert sbatch("--ntasks-per-gpu=2", "-n4").notes == ()


def test_singleton_is_about_the_jobs_of_a_name() -> None:
    assert sbatch("-d", "singleton").singleton and not sbatch("-d", "afterok:1").singleton
    both = sbatch("-d", "singleton,afterok:3", "-a", "0-9")
    assert both.singleton and both.raw["after"] == ["3"] and both.raw["array"] == "0-9%1"


MAIL = {
    ("--mail-type=FAIL",): ["mail:fail"],
    ("--mail-type=BEGIN", "--mail-type=end,FAIL"): ["mail:end,fail,start"],
    ("--mail-type=ALL", "--mail-user=a@x.org"): ["a@x.org:end,oom,start"],
    ("--mail-type=END", "--mail-user=a@x.org,b@x.org"): ["a@x.org:end", "b@x.org:end"],
    ("--mail-type=END", "--mail-type=NONE"): None,
    ("--mail-type=END,NONE",): None,
    ("--mail-type=NONE", "--mail-type=END"): ["mail:end"],
    ("--mail-type=TIME_LIMIT",): ["mail:fail"],
    ("--mail-type=TIME_LIMIT_80",): None,
    ("--mail-type=END", "--mail-user=<your-mail>"): None,
    ("--mail-user=a@x.org",): None,
}


@pytest.mark.parametrize("words", MAIL, ids=" ".join)
def test_mail(words: tuple[str, ...]) -> None:
    found = sbatch(*words)
    assert found.raw.get("notify") == MAIL[words]
    typed_whole(found.raw)
    is_silent = found.raw.get("notify") is None and "NONE" not in str(words)
    assert bool(found.notes) == (is_silent and words != ("--mail-user=a@x.org",))


MOMENTS = {
    "now+1hour": "+1h", "noon": "12:00", "teatime": "16:00", "tomorrow": "tomorrow 00:00",
    "5:30 PM": "17:30", "12:05AM": "00:05", "01/31/30-5:30 PM": "2030-01-31T17:30",
    "2030-01-31": "2030-01-31T00:00",
    "01/31/30": "2030-01-31T00:00", "013130": "2030-01-31T00:00",
    "01/31/30-08:00": "2030-01-31T08:00", "2030-01-31T18:00:05": "2030-01-31T18:00:05",
}  # fmt: skip


def test_moments() -> None:
    for given_, meant in MOMENTS.items():
        assert sbatch(f"--begin={given_}").raw["begin"] == meant
        assert sbatch(f"--deadline={given_}").raw["due"] == meant
    for now in ("now", "today"):
        assert "begin" not in sbatch("-b", now).raw


def test_names_of_this_server() -> None:
    assert sbatch("-w", "box").notes == () == sbatch("-x", "n1,n2").notes
    (note,) = sbatch("--nodelist=n[1-2]").notes
    assert "this server is box" in note
    with pytest.raises(UsageError, match="the only one"):
        sbatch("-x", "n1,box")
    assert sbatch("-o", "log-%N-%%-%3n").raw["output"] == "log-box-%%-000"


def test_a_signal_without_a_time_limit_is_left_out_as_slurm_never_sends_it() -> None:
    found = sbatch("--signal=B:USR1@60")
    assert "signal" not in found.raw and len(found.notes) == 1


WORDS = {
    " --job-name='my job' # why": ["--job-name=my job"],
    r" --comment=a\ b --x=\"q\"": ["--comment=a b", '--x="q"'],
    r""" --comment="say \"hi\"" '-p' a#b -n4""": ['--comment=say "hi"', "-p", "a"],
    " -J x   -p\ty ": ["-J", "x", "-p", "y"],
    "": [],
    " # only a comment": [],
    r" trailing\\": ["trailing\\"],
}


@pytest.mark.parametrize("text", WORDS)
def test_words_of_a_line_are_those_of_slurm(text: str) -> None:
    assert split(text, "line") == WORDS[text]


@given(st.lists(st.text("ab -=\"'\\#", max_size=9), max_size=4))
def test_quoted_words_come_back(words: list[str]) -> None:
    quoted = " ".join("'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'" for word in words)
    assert split(quoted, "line") == [word for word in words if word]


def test_which_lines_are_read() -> None:
    text = (
        "#SBATCH -J a\n#!/bin/bash\n##SBATCH -J b\n #SBATCH -J c\n# SBATCH -J d\n"
        "#SBATCH--mem=1G\n#SLURM -n 2\n#SLURM settings\n\n\t\n#SBATCH\n: ; #SBATCH -J e\n"
    )
    found = [(each.name, each.value) for each in directives(text, "job")]
    assert found == [("job-name", "a"), ("mem", "1G"), ("ntasks", "2")]


def test_variables_of_sbatch() -> None:
    variables = {
        "SBATCH_TIMELIMIT": "5", "SBATCH_GPUS": "a100:2", "SBATCH_WAIT": "", "PATH": "/bin",
        "SBATCH_MAIL_USER": "none of sbatch's", "SBATCH_EXCLUSIVE": "",
    }  # fmt: skip
    found = translate(of_variables(variables), "/", "box")
    assert found.raw["time"] == "300s" and found.raw["gpus"] == "2" and "wait" in found.flags
    assert found.raw["collocation"] == "exclusive" and "notify" not in found.raw


@given(st.integers(0, 9999), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_times(days: int, hours: int, minutes: int, seconds: int) -> None:
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    assert parse_time(f"{days}-{hours}:{minutes:02}:{seconds:02}") == (total or None)


@given(st.integers(0, 10**11), st.sampled_from("KMGT"))
def test_amounts(count: int, unit: str) -> None:
    mib = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}[unit]
    assert parse_memory(f"{count}{unit}") == count * mib


def test_the_table_of_the_documentation_is_that_of_the_declarations() -> None:
    assert slurm_reference.PLACE.read_text("utf-8") == slurm_reference.text(), "make generated"
