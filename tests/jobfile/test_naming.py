"""The names of commands whose users give none."""

from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st

from radrm.jobfile.naming import called
from radrm.jobfile.radfile import wrap_command

NAMES = {
    "train.py": """
        python train.py --lr 1
        /opt/v/bin/python3.11 -u a/train.py
        python -X faulthandler -W ignore -Wonce train.py
        python -m pdb train.py
        python -m cProfile -o out.prof train.py
        python -m torch.distributed.run --nproc_per_node 4 train.py
        torchrun --nproc 2 train.py
        torchrun --standalone --nnodes=1 train.py --data other.py
        accelerate launch --config_file c.yaml --multi_gpu train.py
        deepspeed --hostfile hosts train.py --deepspeed ds.json
        mpirun -np 4 python train.py
        radrun train.py
        uv run train.py
        uv run --with torch -- python train.py
        conda run --no-capture-output -n e python train.py
        micromamba run -p /x/y python train.py
        apptainer exec --nv image.sif python train.py
        nsys profile -o out python train.py
        env -u X A=1 python train.py
        nohup nice -n 5 timeout -k 5 5h python train.py
        bash -c 'cd x && source v/bin/activate; python -u train.py'
        bash -lc 'conda activate e; exec torchrun --nproc_per_node=2 train.py'
        bash -c 'for i in 1 2; do python train.py $i; done'
        """,
    "pkg.mod": """
        python -m pkg.mod
        python -um pkg.mod --lr 1
        torchrun --nnodes 1 -m pkg.mod
        deepspeed --num_gpus=2 --module pkg.mod
        uv run -m pkg.mod
        poetry run python -m pkg.mod
        """,
    "run.sh": """
        bash run.sh
        bash -e -o pipefail a/run.sh x.py
        ./run.sh
        sh -c ./run.sh
        """,
    "solver": """
        env A=1 B=2 ./solver
        nice -5 ./solver
        taskset -c 0-3 ./solver
        stdbuf -oL ./solver
        numactl --cpunodebind=0 --membind 0 ./solver
        mpirun -np 4 ./solver -in data
        ./solver input.py
        """,
    "python": "python -c 'print(1)'\npython -\npython",
    "nb.ipynb": "jupyter execute nb.ipynb\npapermill nb.ipynb out.ipynb",
    "main.R": "Rscript --vanilla main.R 1",
    "env": "env",
    "sh": "sh -c ''\nsh -c 'sleep 5'",
    "torchrun": "torchrun --help",
    "jupyter": "jupyter lab",
}
LINES = [
    (line.strip(), name) for name, lines in NAMES.items() for line in lines.strip().splitlines()
]


def test_a_command_has_the_name_by_which_people_call_it() -> None:
    found = [(line, wrap_command(shlex.split(line), {}).name) for line, _ in LINES]
    assert found == LINES


_WORDS = st.sampled_from([word for line, _ in LINES for word in shlex.split(line)])


@given(st.lists(_WORDS | st.text(), min_size=1, max_size=12))
def test_any_words_have_a_name(words: list[str]) -> None:
    called(words)
    if words[0] and "\0" not in "".join(words):
        assert wrap_command(words, {}).name.isprintable()
