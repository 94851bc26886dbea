"""`radrm service`: make the daemon a service of systemd, show that service, and remove it."""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import unified_diff
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import radrm
from radrm.cli.parameters import FLAG, SWITCH, TEXT, Parameter
from radrm.cli.show.question import answer_to, is_yes, on_terminal
from radrm.client.text import say
from radrm.config import config_path, parse_config, read_config
from radrm.errors import Refused, StoreError, UsageError
from radrm.extras import lacks
from radrm.host.service.choices import (
    ALL,
    Choices,
    check_page,
    check_users,
    configuration,
    has_mail,
    has_web_server,
    web_group,
)
from radrm.host.service.code import code_of, fault_of, script
from radrm.host.service.files import (
    PAGE_PATH,
    UNIT,
    UNIT_PATH,
    File,
    State,
    difference,
    files_of,
    own_unit,
    page_there,
    page_unit,
    under,
)
from radrm.host.service.ownership import Ownership
from radrm.host.service.steps import (
    Site,
    check_folder,
    code_refusal,
    command_text,
    install_commands,
    is_ours,
    own_site,
    packaged_unit,
    refuse_packaged,
    remove_socket,
    run,
    run_all,
    site,
    states_of,
    uninstall_commands,
    write,
)
from radrm.host.service.steps import remove as remove_file
from radrm.host.storage.files import write_durably
from radrm.host.storage.paths import refuse_second

_ROOT = Parameter(
    *("root", TEXT, "Change the system whose files are in DIR: an image.", "DIR", ("--root",))
)
_USER = Parameter(
    *("user", FLAG, "A service of your own, without root: systemctl --user."), flags=("--user",)
)
_DRY_RUN = Parameter(
    *("dry_run", FLAG, "Show the steps, and change nothing."), flags=("--dry-run",)
)

_WORDS = {State.NEW: "write", State.SAME: "same", State.OLDER: "update", State.EDITED: "changed"}


def be_root(dry_run: bool) -> None:
    """Raise `Refused` for a user who is not root, unless nothing is to be changed."""
    if os.geteuid() == 0 or dry_run:
        return
    words = [os.path.abspath(sys.argv[0]), *sys.argv[1:]]
    raise Refused(f"only root can do this; run: sudo {command_text(words)}")


def install_lines(
    states: Iterable[tuple[File, State]], commands: Iterable[Sequence[str]], where: Site
) -> list[str]:
    """`write`: new; `same`: nothing to do; `update`: ours; `changed`: by hand."""
    files = [_line(_WORDS[state], f"{_place(file, where)}{_leads(file)}") for file, state in states]
    return files + _commands(commands)


def removal_lines(
    states: Iterable[tuple[File, State]],
    before: Iterable[Sequence[str]],
    after: Iterable[Sequence[str]],
    where: Site,
) -> list[str]:
    """`remove`: ours; `keep`: changed by hand, or another radrm's; `none`: not there."""
    lines = _commands(before)
    for file, state in states:
        word = "remove" if is_ours(state) else "none" if state is State.NEW else "keep"
        lines.append(_line(word, _place(file, where)))
    return lines + _commands(after)


@contextlib.contextmanager
def one_line(what: str) -> Iterator[None]:
    """Turn an OSError into one line: `what` failed, at which path, and why."""
    try:
        yield
    except OSError as error:
        where = "" if error.filename is None else f" {os.fsdecode(error.filename)}"
        raise StoreError(
            f"{what}{where}: {error.strerror}; correct it and run this again"
        ) from None


# ------------------------------------------------------------------ the questions


_CONTROL = "nvidia-cuda-mps-control"
_ABOUT_MPS = (
    "With CUDA MPS, jobs of one user share a GPU with less loss than time-sliced. A job that",
    "faults ends its user's other jobs on that GPU. radrm's acceptance run of MPS has not",
    "passed on hardware yet. More: radrm help administrators, When to switch it on",
)
_TRIES = 3

Given = dict[str, Any]
"""What the command line says of the fields of `Choices`; None: nothing."""


def ask(given: Given) -> Choices:
    """Ask what the command line leaves open; Enter takes the answer in brackets."""
    show(["A few questions; Enter takes the answer in brackets."])
    found = {name: value for name, value in given.items() if value is not None}
    if "users" not in found:
        found["users"] = _named(f"Who may submit jobs: {ALL}, or a Unix group", ALL, check_users)
    if "share" not in found:
        found["share"] = is_yes("May jobs share a GPU, where memory and load allow it?", True)
    if "mps" not in found and found["share"] and shutil.which(_CONTROL):
        show(_ABOUT_MPS)
        found["mps"] = is_yes("Switch MPS on?", False)
    if "mail" not in found and has_mail():
        found["mail"] = is_yes("Mail users when their jobs fail?", False)
    if "page" not in found and find_spec("starlette") and has_web_server():
        about = "Name under which a web server here shows the page, as gpu.example.org"
        found["page"] = _named(about, "none", _page)
    return Choices(**found)


def _named(question: str, default: str, check: Callable[[str], str]) -> str:
    """Ask for a name until it can be used, at most three times. Raises `UsageError`."""
    for left in reversed(range(_TRIES)):
        try:
            return check(answer_to(question, default) or default)
        except UsageError as error:
            if not left:
                raise
            show([str(error)])
    raise AssertionError


def _page(host: str) -> str:
    if host in ("", "none", "no", "n"):
        return ""
    web_group()
    if not find_spec("starlette"):
        raise UsageError(lacks("the page", "starlette", "web"))
    return check_page(host)


# ------------------------------------------------------------------ the configuration


def config_state(path: str, text: str, chosen: Sequence[str], replace: bool) -> State:
    """What becomes of the configuration: `NEW` is written; any other stays as it is.

    `chosen`: what the command line says of it. Raises `Refused` for an old one that says something
    else there, unless it may be replaced, and for one with a mistake.
    """
    from radrm.cli.settings import find_errors

    try:
        now = read_config(Path(path))
    except (FileNotFoundError, NotADirectoryError):
        return State.NEW
    if errors := find_errors(now, path):
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise Refused(f"{errors[0]}{more}; correct it: radrm config check; then run this again")
    there, wanted = _chosen_in(now), _chosen_in(text)
    if all(there[name] == wanted[name] for name in chosen):
        return State.SAME
    if replace:
        return State.NEW
    show(unified_diff(now.splitlines(), text.splitlines(), f"{path} (now)", path, n=1, lineterm=""))
    raise Refused(
        f"{path} is there already and says something else (see above), and nothing is done; "
        "change it by hand, or keep a copy of it and write this one: --replace"
    )


def _chosen_in(text: str) -> dict[str, object]:
    """What a configuration without a mistake says of each choice."""
    config = parse_config(text, "")
    mps, mail = (config.mps.enabled, config.mps.only), config.notify.default
    return {"share": config.policy != "exclusive", "mps": mps, "mail": mail}


def write_config(path: str, text: str) -> None:
    """Write the configuration. An old one stays beside it."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise Refused(
            f"{path} is no file (such as a link to /dev/null); remove it, then repeat this"
        )
    with one_line("cannot write the configuration: at"):
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        if os.path.exists(path):
            shutil.copy2(path, f"{path}.before")
        write_durably(os.path.realpath(path), text.encode(), 0o644)


def usage_lines(users: str | None) -> list[str]:
    """What the users of this server type from now on."""
    group = users if users not in (None, ALL) else None
    return [
        "radrm serves this machine, now and from boot on. Its users type:",
        "  radrm submit -- python train.py   run a command on a GPU",
        "  radrm status                      their jobs, and why they wait",
        "  radrm gpus                        the GPUs, and who uses them",
        *([f"To let ada submit: sudo usermod -aG {group} ada"] if group else []),
        "What is wrong, and how to correct it: radrm doctor",
    ]


def show(lines: Iterable[str]) -> None:
    say(*lines)


def shown_source(package: str) -> str:
    """What pip can install: the checkout that holds the folder `package`, else the folder of the
    caller."""
    above = os.path.dirname(os.path.abspath(package))
    return above if os.path.isfile(f"{above}/pyproject.toml") else "."


# ------------------------------------------------------------------ one user's own service


def install_own(
    gpus: str | None = None,
    dry_run: bool = False,
    start: bool = True,
    replace: bool = False,
    private: bool = False,
) -> None:
    """Make the daemon a service of this user alone. `gpus`: simulated ones.

    Raises `Refused` for root, without a systemd of the user, and for a unit that was changed;
    `UsageError` on a server that has a radrm for all, unless `private`.
    """
    where, files = own_files(gpus)
    way = ["radrm", "service", "install", "--user", "--private"]
    way += ["--gpus", gpus] if gpus else []
    # Without the variables of this shell: the unit's daemon does not have them.
    refuse_second({}, os.geteuid(), private, command_text(way))
    with one_line("cannot look at"):
        states = states_of(files, where)
        commands = install_commands(where, start)
        show(install_lines(states, commands, where))
        refuse_edited(states, where, replace)
    if dry_run:
        return
    _write_all(states, where)
    run_all(commands, journal=where.journal)
    if not _lingers():
        show(["To keep it and its jobs running when you log out: loginctl enable-linger"])


def own_files(gpus: str | None) -> tuple[Site, list[File]]:
    """The site and the files of this user's service."""
    if os.geteuid() == 0:
        raise Refused("root's daemon serves the whole server; leave out --user")
    home = os.path.expanduser("~")
    runtime = os.environ.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.geteuid()}")
    config = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return own_site(runtime), [own_unit(script(), config, gpus)]


def _lingers() -> bool:
    return os.path.exists(f"/var/lib/systemd/linger/{pwd.getpwuid(os.geteuid()).pw_name}")


def _commands(commands: Iterable[Sequence[str]]) -> list[str]:
    return [_line("run", command_text(command)) for command in commands]


def _place(file: File, where: Site) -> str:
    return under(where.root, file.path)


def _leads(file: File) -> str:
    return "" if file.leads_to is None else f" -> {shlex.quote(file.leads_to)}"


def _line(word: str, text: str) -> str:
    return f"{word:8}{text}"


_KEPT: tuple[str, ...] = (
    "Running jobs go on. Kept are /var/lib/radrm (the queue, checkpoints), /etc/radrm, and what",
    "was set with systemctl edit.",
    "To remove them, once no job runs: sudo rm -r /var/lib/radrm /run/radrm /etc/radrm",
)
_KEPT_OF_ONE: tuple[str, ...] = (
    "Running jobs go on. Kept are the queue (~/.local/state/radrm) and the configuration.",
)


_NO_START = "Start the daemon at the next boot, not now."
_PRIVATE = "With --user: also on a server that has a radrm for all users."
INSTALL_PARAMETERS = (
    _DRY_RUN,
    Parameter("no_start", FLAG, _NO_START, flags=("--no-start",)),
    Parameter(
        *("replace", FLAG, "Overwrite files that were changed by hand."), flags=("--replace",)
    ),
    *(_ROOT, _USER),
    Parameter("gpus", TEXT, "With --user: simulated GPUs.", "sim:SPEC", ("--gpus",)),
    Parameter("private", FLAG, _PRIVATE, flags=("--private",)),
    Parameter("users", TEXT, f"Who may submit: a Unix group, or {ALL}.", "GROUP", ("--users",)),
    Parameter("share", SWITCH, "Whether jobs may share a GPU.", flags=("--share", "--no-share")),
    Parameter("mps", SWITCH, "Whether by CUDA MPS.", flags=("--mps", "--no-mps")),
    Parameter("mail", SWITCH, "Mail users when their jobs fail.", flags=("--mail", "--no-mail")),
    Parameter("page", TEXT, "Serve the page to the web server here.", "HOST", ("--page",)),
    Parameter("yes", FLAG, "Ask nothing; take the defaults.", flags=("--yes", "-y")),
)


def install(
    dry_run: bool,
    no_start: bool,
    replace: bool,
    root: str,
    user: bool,
    gpus: str,
    private: bool,
    users: str,
    share: bool | None,
    mps: bool | None,
    mail: bool | None,
    page: str,
    yes: bool,
) -> None:
    """Make the daemon a service of systemd.

    The service is for all users of this server. The command shows its steps, then takes them:
    a unit, radrm's folders, and a link to radrm in /usr/local/bin. A second run changes nothing.
    It refuses code that others than root can change, because the service runs it as root.
    On a terminal, without a configuration file, it asks at most five questions; each has an option
    here. It writes the configuration, with remarks, and keeps one that is there.

    \b
    Examples:
      sudo "$(command -v radrm)" service install
      sudo "$(command -v radrm)" service install --yes --users gpu --mps
      radrm service install --dry-run
      radrm service install --user
    """
    given: Given = {"share": share, "mps": mps, "mail": mail}
    given |= {"users": users or None, "page": page or None}
    chosen = [name for name, value in given.items() if value is not None]
    if chosen and (user or root):
        beside = "--user" if user else "--root"
        raise UsageError(f"--{chosen[0]} sets up a server that runs; leave out {beside}")
    if user:
        if root:
            raise UsageError("--user and --root exclude each other; use one of them")
        install_own(gpus or None, dry_run, not no_start, replace, private)
        return
    if private:
        raise UsageError("--private goes with --user: a server's daemon serves all users")
    if gpus:
        raise UsageError("--gpus goes with --user: a server's daemon serves its real GPUs")
    given["users"] = check_users(users) if users else None
    given["page"] = _page(page) if page else None
    where = site(root or None)
    config = str(config_path({}, True))  # the service's, without the variables of this shell
    first = not where.offline and not os.path.lexists(config)
    asks = first and not yes and not dry_run and on_terminal()
    if where.offline or not (chosen or asks):
        refuse_packaged(where)
    be_root(dry_run)
    radrmd = script()
    with one_line("cannot look at"):
        fault = fault_of(code_of(radrmd), Ownership(lasting=True))
    if fault is not None:
        raise code_refusal(fault, shown_source(os.path.dirname(radrm.__file__)))
    choices = Choices(**{name: value for name, value in given.items() if value is not None})
    if asks:
        choices = ask(given)
    # A package has brought the unit and its folders: only what was chosen is left to do.
    files = [] if packaged_unit(where) else list(files_of(radrmd))
    commands = install_commands(
        where, not no_start, choices.users, bool(choices.page), folders=bool(files)
    )
    if choices.page:
        files.append(page_unit(radrmd, web_group(), choices.page))
    text = configuration(choices)
    with one_line("cannot look at"):
        states = states_of(files, where)
        lines = install_lines(states, (), where)
        settings = State.SAME
        if not where.offline:
            said = [name for name in chosen if name in ("share", "mps", "mail")]
            settings = config_state(config, text, said, replace)
            lines.append(_line("write" if settings is State.NEW else "keep", config))
            files += [File(config, text=text)] * (settings is State.NEW)
        show(lines + _commands(commands))
        ownership = Ownership()
        for file in files:
            check_folder(file, where, ownership)
        refuse_edited(states, where, replace)
    if dry_run:
        return
    _write_all(states, where)
    if settings is State.NEW:
        write_config(config, text)
    run_all(commands)
    if where.offline or no_start:
        return
    show(usage_lines(choices.users))
    before = states[0][1] if states else State.SAME
    if before not in (State.NEW, State.SAME):
        show(["To use the new unit: sudo systemctl restart radrmd; running jobs go on"])
    elif before is State.SAME and settings is State.NEW:
        show(["To use the new configuration: sudo radrm config reload; running jobs go on"])


def refuse_edited(states: Iterable[tuple[File, State]], where: Site, replace: bool) -> None:
    """Show how files that were changed by hand differ. Raises `Refused`, unless they may be
    replaced."""
    edited = [file for file, state in states if state is State.EDITED]
    for file in edited:
        show(difference(file, where.root))
    if edited and not replace:
        unit = "radrm-page" if edited[0].path == PAGE_PATH else "radrmd"
        edit = f"{'systemctl --user' if where.own else 'sudo systemctl'} edit {unit}"
        raise Refused(
            f"{edited[0].path} is not as radrm writes it (see above), and nothing is done; put "
            f"your changes into: {edit}; then overwrite it: --replace"
        )


def _write_all(states: Iterable[tuple[File, State]], where: Site) -> None:
    for file, state in states:
        if state is not State.SAME:
            with one_line(f"cannot write {file.path}: at"):
                write(file, where)


REMOVE_PARAMETERS = (_DRY_RUN, _ROOT, _USER)


def remove(dry_run: bool, root: str, user: bool) -> None:
    """Stop the service and remove its files; jobs stay.

    The command shows its steps, then takes them. The jobs' data and the configuration stay, and
    so does a file that was changed by hand.

    \b
    Examples:
      sudo radrm service remove
      radrm service remove --user
    """
    if user and root:
        raise UsageError("--user and --root exclude each other; use one of them")
    if user:
        where, files = own_files(None)
        by_hand, kept = "systemctl --user disable --now radrmd && rm {}", _KEPT_OF_ONE
    else:
        where, files = site(root or None), list(files_of(script()))
        page, own = page_there(where.root), os.path.lexists(under(where.root, UNIT_PATH))
        if (path := packaged_unit(where)) and not page and not own:
            raise Refused(
                f"{path} is of a package of the system; remove that: sudo apt remove radrm"
            )
        be_root(dry_run)
        files += page
        by_hand, kept = "sudo systemctl disable --now radrmd && sudo rm {}", _KEPT
    with one_line("cannot look at"):
        states = states_of(files, where)
    before, after = uninstall_commands(states, where)
    show(removal_lines(states, before, after, where))
    if dry_run:
        return
    run_all(before, journal=where.journal)
    for file, _ in states:
        with one_line(f"cannot remove {file.path}: at"):
            remove_file(file, where)
    run_all(after, journal=where.journal)
    if not user:
        with one_line("cannot remove the socket: at"):
            remove_socket(where)
    unit, state = states[0]
    if state is State.EDITED:
        how = by_hand.format(shlex.quote(unit.path))
        show([f"{unit.path} is not as radrm writes it, and stays. To remove it: {how}"])
    show(kept)


STATUS_PARAMETERS = (_USER,)


def status(user: bool) -> int:
    """Show the service: its files, then what systemd says of it.

    `same`: as this radrm writes it; `update`: of another release; `changed`: by hand; `write`: not
    there. The exit code is 1 if the service does not run.

    \b
    Examples:
      radrm service status
      radrm service status --user
    """
    where, files = own_files(None) if user else (site(None), files_of(script()))
    with one_line("cannot look at"):
        show(install_lines(states_of(files, where), (), where))
    return int(bool(run(where.systemctl("--no-pager", "--lines=0", "status", UNIT))))
