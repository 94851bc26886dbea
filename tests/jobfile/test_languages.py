"""Files that are programs are refused, with the line that runs them."""

from __future__ import annotations

import json

import pytest

from radrm.errors import BadFile
from radrm.jobfile.radfile import read_job_file

NOTEBOOK = json.dumps({"cells": [], "metadata": {}, "nbformat": 4}).encode()


@pytest.mark.parametrize(
    ("name", "data", "line"),
    [
        ("train.py", b'import os\nprint("hi")\n', "radrm submit -- python train.py"),
        ("src/train.py", b"x = 1\n", "radrm submit -- python src/train.py"),
        ("train.PY", b"x = 1\n", "radrm submit -- python train.PY"),
        ("my train.py", b"x = 1\n", "radrm submit -- python 'my train.py'"),
        ("train.py", b"#RAD --gpus=1\nimport torch\n", "radrm submit -- python train.py"),
        ("train.py", b"\xef\xbb\xbfimport os\r\n", "radrm submit -- python train.py"),
        ("train", b"# trains\nfrom torch import nn\n", "radrm submit -- python train"),
        ("train.txt", b'"""Trains."""\nimport os\n', "radrm submit -- python train.txt"),
        ("job", b"import numpy as np\n", "radrm submit -- python FILE"),
        ("a.ipynb", NOTEBOOK, "radrm submit -- jupyter execute a.ipynb"),
        ("notebook", NOTEBOOK, "radrm submit -- jupyter execute notebook"),
        ("fit.R", b"x <- 1\n", "radrm submit -- Rscript fit.R"),
        ("fit", b"library(torch)\n", "radrm submit -- Rscript fit"),
        ("fit.jl", b"x = 1\n", "radrm submit -- julia fit.jl"),
        ("fit", b"using Flux\n", "radrm submit -- julia fit"),
        ("train", b"\x7fELF\2\1\1\0" + bytes(2 << 20), "radrm submit -- ./train"),
        ("bin/train", b"\x7fELF\2", "radrm submit -- bin/train"),
        ("train", b'if __name__ == "__main__":\n    main()\n', "radrm submit -- python train"),
        ("train", b"@hydra.main(None)\ndef main(cfg):\n", "radrm submit -- python train"),
        ("train", b"lr = 0.1\n", "radrm submit -- python train"),
        ("fit", b"x <- 1\n", "radrm submit -- Rscript fit"),
        ("config.yaml", b"lr: 1\n", "submit the program that reads it"),
    ],
)
def test_a_program_is_refused(name: str, data: bytes, line: str) -> None:
    with pytest.raises(BadFile) as refused:
        read_job_file(data, name, {})
    (said,) = str(refused.value).splitlines()
    assert line in said


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.py", "#!/usr/bin/env python3\nimport os\n"),
        ("train.sh", "python train.py\n"),
        ("train", "# import os\nimport -window root shot.png\n"),
        ("train", "from=1\npython train.py\n"),
        ("train.sbatch", "#SBATCH --gpus=1\nsrun python train.py\n"),
        ("train.rad", "conda activate env\npython train.py\n"),
        ("class", "class=3; python train.py\n"),
        ("v1.2", "print_all() { echo; }\nprint_all\n"),
        ("a", "import\n"),
        ("a", "while :\ndo break; done\n"),
        ("a", "if :; then echo; fi\n"),
        ("a", "for i in 1 2\ndo echo; done\n"),
        ("a", "lr=0.1\n"),
        ("a", "[ a = b ] || true\n"),
        ("a", "{ echo nbformat; }\n"),
    ],
)
def test_a_shell_script_runs(name: str, text: str) -> None:
    assert read_job_file(text.encode(), name, {}).script is not None
