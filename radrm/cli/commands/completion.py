"""`radrm completion`: print the script that completes command lines, and answer what it asks."""

from __future__ import annotations

import os

from radrm.cli.parameters import WORDS, Parameter
from radrm.client.text import print_text
from radrm.errors import UsageError

SHELLS = ("bash", "zsh", "fish")
_HERE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "completion")
_SHELL = f"{', '.join(SHELLS[:-1])} or {SHELLS[-1]}"
COMPLETION_PARAMETERS = (Parameter("words", WORDS, f"{_SHELL}.", "|".join(SHELLS), least=1),)


def completion(words: list[str]) -> None:
    """Print the completion of your shell: bash, zsh or fish.

    It completes commands, options, choices, job ids and names, GPUs, users and settings.

    \b
    Examples (each for good; start a new shell afterwards):
      echo 'source <(radrm completion bash)' >> ~/.bashrc
      echo 'source <(radrm completion zsh)' >> ~/.zshrc      behind compinit
      radrm completion fish > ~/.config/fish/completions/radrm.fish
    """
    shell, *line = words
    if shell not in SHELLS:
        raise UsageError(f"completion: {shell[:40]!r} is not {_SHELL}")
    if line:
        print_text("".join(f"{each}\n" for each in answer(shell, line)))
        return
    with open(os.path.join(_HERE, f"radrm.{shell}"), encoding="utf-8") as file:
        print_text(file.read())


def answer(shell: str, line: list[str]) -> list[str]:
    """What follows the words of `line`, whose last one is not complete.

    The first line is `files`, `folders` or `command` with the part of the word before it, `open`
    if no space follows, or `words`. The others are candidates, each with a tab and its help; for
    bash without help, and without what bash keeps of the word.
    """
    from radrm.cli.completion.line import COMMAND, FILES, FOLDERS, candidates, glued, place, table
    from radrm.cli.listing import ALIASES

    words, kept = glued(line) if shell == "bash" else (line, 0)
    known = table()
    found = place(words, known, ALIASES)
    if found.values in (FILES, FOLDERS, COMMAND):
        return [f"{found.values}\t{found.prefix}"]
    given = list(found.candidates) or candidates(found, known)
    texts = [(found.prefix + text, about) for text, about in given]
    lines = [text[kept:] if shell == "bash" else f"{text}\t{about}" for text, about in texts]
    return ["open" if found.values == "settings" else "words", *lines]
