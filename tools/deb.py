"""A Debian package of radrm for the Python of this machine.

    python -m tools.deb FOLDER

builds the wheel and writes FOLDER/radrm_VERSION_ARCHITECTURE.deb. The package holds an environment
of its own in /usr/lib/radrm: radrm and the packages that it needs, with the system's Python. So
nothing of it is on the path of other Python programs, and the daemon's helpers find radrm by
`sys.executable` as in any virtual environment. Needs dpkg-deb, and pip's index for the packages.

`DEBFULLNAME` and `DEBEMAIL` name the maintainer, as for Debian's own tools. Two builds are equal if
the packages are: all times are those of SOURCE_DATE_EPOCH, by default the last commit's.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from email.parser import HeaderParser
from email.utils import formatdate
from pathlib import Path

from radrm import __version__
from radrm.host.service.files import TEMPLATES

REPOSITORY = Path(__file__).parents[1]
DEBIAN = REPOSITORY / "packaging" / "debian"
PYTHON = os.environ.get("DEB_PYTHON", "/usr/bin/python3")
HOME = "usr/lib/radrm"
EXTRAS = "top,web,metrics"
COMMANDS = ("radrm", "radrmd", "radrun", "radrm-simjob")
SCRIPTS = ("postinst", "prerm", "postrm")
_PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_28")
_HOLDER = re.compile(r"\s*Copyright (?:\(c\)|©)? ?(\d.*?)[.\s]*$", re.IGNORECASE)
_COMMAND = """#!/{home}/bin/python3
import sys
from {module} import {function}

sys.exit({function}())
"""


def main() -> int:
    """Build the package. Returns the exit code."""
    if len(sys.argv) != 2:
        print("usage: python -m tools.deb FOLDER", file=sys.stderr)
        return 2
    if shutil.which("dpkg-deb") is None:
        print("this needs dpkg-deb, of Debian and its descendants", file=sys.stderr)
        return 1
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    epoch_s = _epoch_s()
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch_s)
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="radrm-deb-") as folder:
        root = Path(folder) / "root"
        version = _environment(root, Path(folder))
        _files(root, epoch_s)
        _control(root, version)
        for path in sorted(root.rglob("*"), reverse=True):
            os.utime(path, (epoch_s, epoch_s), follow_symlinks=False)
        package = target / f"radrm_{__version__}_{_architecture()}.deb"
        _run("dpkg-deb", "--root-owner-group", "--build", str(root), str(package))
    print(package)
    return 0


def _epoch_s() -> int:
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is None:
        given = _run("git", "-C", str(REPOSITORY), "log", "-1", "--format=%ct")
    return int(given)


def _run(*command: str) -> str:
    """Run a program and return what it prints. Raises `CalledProcessError`."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def _architecture() -> str:
    return _run("dpkg", "--print-architecture")


# ------------------------------------------------------------------ the environment


def _environment(root: Path, folder: Path) -> tuple[int, int]:
    """Make radrm's own environment below `root`. Returns the version of its Python."""
    asked = "import sys; print(*sys.version_info[:2])"
    major, minor = map(int, _run(PYTHON, "-c", asked).split())
    home = root / HOME
    packages = home / "lib" / f"python{major}.{minor}" / "site-packages"
    _install(folder, packages, f"{major}.{minor}")
    shutil.rmtree(packages / "bin")  # started from there, they would find no package
    shutil.rmtree(packages / "share")
    (packages / "example.py").unlink(missing_ok=True)  # a leftover of nvidia-ml-py
    binaries = home / "bin"
    binaries.mkdir()
    (binaries / "python3").symlink_to(f"/usr/bin/python{major}.{minor}")
    (home / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {major}.{minor}\n"
    )
    links = root / "usr" / "bin"
    links.mkdir()
    for name, (module, function) in _entry_points(packages).items():
        script = binaries / name
        script.write_text(_COMMAND.format(home=HOME, module=module, function=function))
        script.chmod(0o755)
        (links / name).symlink_to(f"../lib/radrm/bin/{name}")
    return major, minor


def _install(folder: Path, packages: Path, version: str) -> None:
    """Build the wheel, and put it and what it needs into a folder."""
    dist = folder / "dist"
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(dist))
    (wheel,) = dist.glob("*.whl")
    machine = os.uname().machine
    platforms = [f"--platform={each}_{machine}" for each in _PLATFORMS]
    _run(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *("--no-compile", "--only-binary=:all:", "--implementation=cp", "--platform=any"),
        *(f"--python-version={version}", *platforms, f"--target={packages}", f"{wheel}[{EXTRAS}]"),
    )
    for name in ("direct_url.json", "REQUESTED", "RECORD", "INSTALLER"):  # how it was built
        for path in packages.glob(f"*.dist-info/{name}"):
            path.unlink()
    for path in packages.rglob("*.so"):
        subprocess.run(["strip", "--strip-unneeded", str(path)], check=True)
    for path in packages.rglob("*"):
        path.chmod(0o755 if path.is_dir() or _is_program(path) else 0o644)


def _is_program(path: Path) -> bool:
    """Whether jobs can run a file by its name, as Slurm's commands."""
    with path.open("rb") as file:
        return bool(path.stat().st_mode & stat.S_IXUSR) and file.read(2) == b"#!"


def _entry_points(packages: Path) -> dict[str, tuple[str, str]]:
    """The module and function of each command."""
    (text,) = packages.glob("radrm-*.dist-info/entry_points.txt")
    found = re.findall(r"^([\w-]+) = ([\w.]+):(\w+)$", text.read_text(), re.MULTILINE)
    points = {name: (module, function) for name, module, function in found}
    points["radrm"] = ("radrm.cli.main", "main")  # a script of the wheel: `packaging/bin/`
    return {name: points[name] for name in COMMANDS}


# ------------------------------------------------------------------ other files


def _files(root: Path, epoch_s: int) -> None:
    """The unit, its folders, manual pages, completions and documents."""
    unit = (TEMPLATES / "radrmd.service").read_text().replace("@RADRMD@", "/usr/bin/radrmd")
    _write(root / "lib/systemd/system/radrmd.service", unit)
    _write(root / "usr/lib/tmpfiles.d/radrm.conf", (TEMPLATES / "radrm.conf").read_text())
    words = REPOSITORY / "radrm" / "cli" / "completion"
    share = root / "usr" / "share"
    for shell, place in (
        ("bash", "bash-completion/completions/radrm"),
        ("fish", "fish/vendor_completions.d/radrm.fish"),
        ("zsh", "zsh/vendor-completions/_radrm"),
    ):
        _write(share / place, (words / f"radrm.{shell}").read_text())
    for page in sorted((REPOSITORY / "man").glob("*.1")):
        _write_packed(share / "man" / "man1" / f"{page.name}.gz", page.read_text())
    _write_packed(share / "man" / "man1" / "radrmd.1.gz", ".so man1/radrm-daemon.1\n")
    documents = share / "doc" / "radrm"
    _write(documents / "copyright", _copyright(root))
    _write_packed(documents / "changelog.gz", _changelog(epoch_s))
    _write_packed(documents / "NEWS.gz", (REPOSITORY / "CHANGELOG.md").read_text())
    (guide,) = (root / HOME).glob("lib/*/site-packages/radrm/guide")
    (documents / "guide").symlink_to(os.path.relpath(guide, documents))
    overrides = (DEBIAN / "lintian-overrides").read_text()
    _write(share / "lintian" / "overrides" / "radrm", overrides)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _write_packed(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def _changelog(epoch_s: int) -> str:
    return (
        f"radrm ({__version__}) unstable; urgency=medium\n\n  * Built from the sources of radrm; "
        "its changes are in NEWS.\n\n"
        f" -- {_maintainer()}  {formatdate(epoch_s)}\n"
    )


def _maintainer() -> str:
    name = os.environ.get("DEBFULLNAME", "radrm local build")
    return f"{name} <{os.environ.get('DEBEMAIL', 'root@localhost')}>"


def _copyright(root: Path) -> str:
    """The licences of radrm and of the packages that are inside."""
    return "\n".join(
        [
            "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/",
            "Upstream-Name: radrm",
            "",
            "Files: *",
            "Copyright: the contributors of radrm",
            "License: Apache-2.0",
            " On Debian systems, the text of the Apache License, version 2.0, is in",
            " /usr/share/common-licenses/Apache-2.0.",
            "",
            *_others(root / HOME),
        ]
    )


def _others(home: Path) -> Iterator[str]:
    """A paragraph for each package that radrm brings."""
    for metadata in sorted(home.glob("lib/*/site-packages/*.dist-info/METADATA")):
        found = HeaderParser().parsestr(metadata.read_text(errors="replace"))
        if found["Name"] == "radrm":
            continue
        name = re.sub(r"\W", "_", found["Name"])
        kind = found["License-Expression"] or found["License"] or "see its files"
        words = re.sub(r"[^\w.+-]+", "-", kind.splitlines()[0]).strip("-") or "see"
        where = metadata.parent.relative_to(home.parents[2])
        yield f"Files: {HOME}/lib/*/site-packages/{name.lower()}*"
        yield f"Copyright: {_holders(metadata.parent) or f'the authors of {name}'}"
        yield f"License: {words}-of-{name}"
        yield f" {kind.splitlines()[0]}; its texts are in /{where}."
        yield ""


def _holders(folder: Path) -> str:
    """Whose copyright the licence texts of a package name."""
    found: dict[str, None] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "METADATA":
            lines = path.read_text(errors="replace").splitlines()
            found |= dict.fromkeys(m[1] for m in map(_HOLDER.match, lines) if m)
    return "\n ".join(found)


# ------------------------------------------------------------------ control


def _control(root: Path, version: tuple[int, int]) -> None:
    """The metadata and scripts of the package."""
    major, minor = version
    size = sum(p.lstat().st_size for p in root.rglob("*") if stat.S_ISREG(p.lstat().st_mode))
    words = {
        "VERSION": __version__,
        "ARCHITECTURE": _architecture(),
        "MAINTAINER": _maintainer(),
        "SIZE": str(-(-size // 1024)),
        "PYTHON": f"{major}.{minor}",
        "NEXT_PYTHON": f"{major}.{minor + 1}",
    }
    text = (DEBIAN / "control").read_text()
    for name, word in words.items():
        text = text.replace(f"@{name}@", word)
    place = root / "DEBIAN"
    _write(place / "control", text)
    for name in SCRIPTS:
        shutil.copyfile(DEBIAN / name, place / name)
        (place / name).chmod(0o755)
    files = sorted(p for p in root.rglob("*") if p.is_file() and not p.is_symlink())
    sums = [p for p in files if place not in p.parents]
    lines = [f"{_md5(p)}  {p.relative_to(root)}\n" for p in sums]
    _write(place / "md5sums", "".join(lines))


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
