"""The line that says how to reach a Jupyter server: only where it is true."""

from __future__ import annotations

import pytest

from radrm.client.jupyter import JupyterHint

SSH = {"SSH_CONNECTION": "10.0.0.7 51234 192.0.2.1 22"}
SAID = b"[I] Jupyter Server is running at:\r\n    http://localhost:8888/lab?token=c0ffee\r\n"


@pytest.mark.parametrize("cut", [0, 20, 50, len(SAID) - 1])
def test_the_tunnel_is_named_once(cut: int) -> None:
    hint = JupyterHint(SSH, "ada")
    lines = [hint.see(SAID[:cut]), hint.see(SAID[cut:]), hint.see(SAID)]
    (line,) = [each for each in lines if each is not None]
    assert line.endswith(": ssh -N -L 8888:localhost:8888 ada@192.0.2.1")


def test_another_port_of_ssh_is_named() -> None:
    hint = JupyterHint({"SSH_CONNECTION": "10.0.0.7 51234 192.0.2.1 2222"}, "ada")
    assert "ssh -N -p 2222 -L" in (hint.see(SAID) or "")


def test_nothing_is_said_without_ssh_or_without_an_address() -> None:
    assert JupyterHint({}, "ada").see(SAID) is None
    assert JupyterHint(SSH, "ada").see(b"see http://localhost:8888/docs for more\n") is None
