"""What a script says that its user will not expect of a job."""

from __future__ import annotations

import pytest

from radrm.jobfile.confirmation import notes_on
from radrm.jobfile.radfile import read_job_file, wrap_command
from radrm.jobfile.surprises import own_gpu, surprises

T = "python train.py"


def notes(script: str, first: str = "#!/bin/bash") -> list[str]:
    return surprises(read_job_file(f"{first}\n{script}\n".encode(), "run.sh", {}))


LEFT = [
    f"{T} &",
    f"nohup {T} > out.log 2>&1 &",
    f"nohup {T} &>out.log &\necho $! > pid\nsleep 1\nexit 0",
    f"setsid {T} & disown",
    f"setsid -f {T}",
    f"for seed in 1 2 3; do\n  nohup {T} --seed $seed &\n  pids+=($!)\ndone\necho started",
    f"({T}; python b.py) &",
    f"{{ {T}; }} &",
    f"while read x; do {T} $x & done < list",
    f"wait\n{T} &",
    f"{T} & # wait",
    f"cat <<END\nwait\nEND\n{T} &",
    f'echo "wait"; {T} &',
    f"OMP_NUM_THREADS=1 {T} 2>&1 | tee log &",
    "tmux new-session -d -s a 'python train.py'",
    "screen -dmS a python train.py",
    "docker run --gpus all -d image python train.py",
    f"{T} &\n{T} &\n{T}",  # believed to wait for all
    f"nohup {T} > May19.log 2>&1 &\n29045",
    'nohup bash -c "A=0 python a.py" > a 2>&1 &\necho "running in the background!"',
    f"{T} --gpu 0 & sleep 1s\n{T} --gpu 1 & sleep 1s",
    f"({T} &) &",
    "python - <<EOF &\nprint(1)\nEOF",
    f"{T} &\nps aux | grep python",
    f"{T} &\njobs -l",
    f"for i in 1 2; do {T} & done\nps",
]
NOT_LEFT = [
    T,
    f"{T} &\nwait",
    f"{T} & pid=$!\nwait $pid",
    f"{T} & {T} & wait -n; wait",
    f"nvidia-smi -l 5 > gpu.log &\n{T}",
    f"{T} &\nsleep infinity",
    f"{T} &\nfor job in `jobs -p`; do wait $job; done",
    f"{T} &\nwhile :; do n=$(jobs | grep Running | wc -l); [ $n = 0 ] && break; sleep 5; done",
    "exec > >(while IFS= read -r line; do echo $line; done) 2>&1\necho a",
    f"trap 'exec >&- 2>&-; wait' EXIT\n{T} &",
    f"{T} &\nsleep 48h",
    f"{T} &\nwhile kill -0 $!; do sleep 10; done",
    f"{T} &\nwhile true; do nvidia-smi; sleep 60; done",
    f"trap 'kill 0' EXIT\n{T} &",
    f"finish() {{ wait; }}\ntrap finish EXIT\n{T} &",
    f"function run {{ {T} & }}\nrun",
    f'{T} &\nwhile [ -n "$(jobs -r)" ]; do sleep 5; done',
    f"{T} &\nuntil ! pgrep -f train.py; do sleep 5; done",
    f"{T} 2>&1",
    f"{T} &> log",
    f"{T} >& log",
    f"{T} && echo done",
    f"{T} |& tee log",
    f"# {T} &\ntrue",
    f"echo '{T} &'",
    f'echo "{T} &"',
    f"cat > run.sh <<'EOF'\n{T} &\nEOF",
    "echo $(( 6 & 3 ))",
    "if (( flags & 1 )); then echo odd; fi",
    'url="http://a/?a=1&b=2"',
    "docker run --rm -it image python train.py",
    f"#RAD --background=wait\n{T} &",
]


@pytest.mark.parametrize("script", LEFT)
def test_what_is_left_in_the_background_is_told(script: str) -> None:
    (note,) = notes(script)
    assert "background" in note


@pytest.mark.parametrize("script", NOT_LEFT)
def test_what_is_waited_for_is_not(script: str) -> None:
    assert notes(script) == []


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (f"{T} > log &\ntail -f log", True),
        (f"{T} > log &\ntail -n+1 -F log\n", True),
        (f"{T} > log &\ntail -f --pid=$! log", False),
        (f"{T} > log &\ntail -f log & wait", False),
        ("tail -f log", False),
    ],
)
def test_a_script_that_follows_its_log_never_ends(script: str, told: bool) -> None:
    assert ["never ends" in note for note in notes(script)] == [True] * told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("bash", "-c", f"{T} &"), True),
        (("/bin/sh", "-ec", f"{T} & wait"), False),
        (("bash", "run.sh", "&"), False),
        (("echo", f"{T} &"), False),
    ],
)
def test_the_text_for_a_shell_is_read_too(words: tuple[str, ...], told: bool) -> None:
    assert bool(surprises(wrap_command(words, {}))) == told


@pytest.mark.parametrize(
    ("script", "has_note"),
    [
        (f"CUDA_VISIBLE_DEVICES=0 {T}", True),
        ("export CUDA_VISIBLE_DEVICES=2,3", True),
        (f"env CUDA_VISIBLE_DEVICES=1 {T}", True),
        (f"#RAD --gpus=0\nCUDA_VISIBLE_DEVICES=0 {T}", False),
        (f"CUDA_VISIBLE_DEVICES= {T}", False),
        (f"CUDA_VISIBLE_DEVICES=-1 {T}", False),
        (f"CUDA_VISIBLE_DEVICES=${{CUDA_VISIBLE_DEVICES%%,*}} {T}", False),
        (f"# CUDA_VISIBLE_DEVICES=0 {T}\necho 'CUDA_VISIBLE_DEVICES=0 a'", False),
    ],
)
def test_a_job_that_chooses_its_gpu_has_a_note(script: str, has_note: bool) -> None:
    read = read_job_file(f"#!/bin/bash\n{script}\n".encode(), "run.sh", {})
    assert ["CUDA_VISIBLE_DEVICES" in note for note in notes_on(read)] == [True] * has_note


@pytest.mark.parametrize(
    ("text", "has_note"),
    [
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '0'", True),
        ('os.environ["CUDA_VISIBLE_DEVICES"]="1,2"', True),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = args.gpu", False),
        ("os.environ.setdefault('CUDA_VISIBLE_DEVICES', '0')", False),
        ("# os.environ['CUDA_VISIBLE_DEVICES'] = '0'", False),
    ],
)
def test_so_is_a_python_program(text: str, has_note: bool) -> None:
    assert bool(notes(f"import os\n{text}", "#!/usr/bin/env python3")) is has_note
    assert bool(own_gpu(wrap_command(["python", "train.py"], {}), text)) is has_note


@pytest.mark.parametrize(
    "line",
    [
        'cd "$(dirname "$0")"',
        "cd $(dirname $0)/..",
        'cd "${0%/*}"',
        'SCRIPT_DIR=$( cd -- "$( dirname -- "${BASH_SOURCE[0]}" )" &> /dev/null && pwd )',
        'DIR="$(dirname "$(readlink -f "$0")")"',
        "HERE=`dirname $0`",
        "ROOT=$(realpath $0)",
        "ROOT=${BASH_SOURCE%/*}/..",
        'source "$(dirname "${BASH_SOURCE[0]}")/env.sh"',
        "cd ${0:a:h}",
    ],
)
def test_a_script_that_looks_for_its_folder_is_told_of_its_copy(line: str) -> None:
    (note,) = notes(f"{line}\npython train.py")
    assert "RADRM_SCRIPT" in note


@pytest.mark.parametrize(
    "line",
    [
        'echo "usage: $0 FILE"',
        "awk '{print $0}' log",
        "name=$(basename $0 .sh)",
        'if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then main; fi',
        "# cd $(dirname $0)\ntrue",
        'cd "$(dirname "${RADRM_SCRIPT:-$0}")"',
        "cd $SLURM_SUBMIT_DIR",
        "echo ${0##*/}",
    ],
)
def test_other_uses_of_its_name_are_not(line: str) -> None:
    assert notes(line) == []


def test_a_python_script() -> None:
    first = "#!/usr/bin/env python3"
    for own in ("__file__", "sys.argv[0]"):
        assert len(notes(f"import os\nos.chdir(os.path.dirname({own}))", first)) == 1
    assert notes("import os  # not __file__\nprint(sys.argv[0], 1 & 2)", first) == []


def test_hostile_texts_are_read_for_a_bounded_time() -> None:
    for text in ("f() {\n", "((", "a &\n", "$((", "x<<E &\n"):
        notes(text * 3_000)


def test_the_notes_of_a_submission_have_them() -> None:
    for script in (f"{T} &", "docker run -d image", 'cd "$(dirname "$0")"', "echo %x"):
        job_file = read_job_file(f"#!/bin/bash\n{script}\n".encode(), "run.sh", {})
        assert set(surprises(job_file)) <= set(notes_on(job_file))
