"""A notebook's command, and the lines that say how to reach it: only where they are true."""

from __future__ import annotations

from pathlib import Path

import pytest

from radrm.client.session import JupyterHint, jupyter_command
from radrm.errors import Refused

SSH = {"SSH_CONNECTION": "10.0.0.7 51234 192.0.2.1 22"}
SAID = b"[C] Or copy and paste one of these URLs:\r\n    http://127.0.0.1:8888/lab?token=c0ffee\r\n"


@pytest.mark.parametrize("cut", [0, 20, 70, len(SAID) - 2, len(SAID) - 1])
def test_the_tunnel_and_the_address_are_named_once(cut: int) -> None:
    hint = JupyterHint(SSH, "ada")
    tunnel, address = [*hint.see(SAID[:cut]), *hint.see(SAID[cut:]), *hint.see(SAID)]
    assert tunnel.endswith(": ssh -N -L 8888:127.0.0.1:8888 ada@192.0.2.1")
    assert address.endswith(": http://localhost:8888/lab?token=c0ffee")


def test_another_port_of_ssh_is_named() -> None:
    hint = JupyterHint({"SSH_CONNECTION": "10.0.0.7 51234 192.0.2.1 2222"}, "ada")
    assert "ssh -N -p 2222 -L" in hint.see(SAID)[0]


def test_without_ssh_they_are_named_to_who_asks_and_never_without_an_address() -> None:
    assert not JupyterHint({}, "ada").see(SAID)
    assert " ada@" in JupyterHint({}, "ada", asked=True).see(SAID)[0]
    assert not JupyterHint(SSH, "ada").see(b"see http://localhost:8888/docs for more\n")


def test_the_command_is_the_jupyterlab_on_the_path(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="pip install jupyterlab"):
        jupyter_command((), {"PATH": str(tmp_path)})
    program = tmp_path / "jupyter-lab"
    program.touch(mode=0o755)
    found = jupyter_command(("--port=9999",), {"PATH": str(tmp_path)})
    assert (found[0], found[-1]) == (str(program), "--port=9999") and "--no-browser" in found
