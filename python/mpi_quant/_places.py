"""Where things are that belong to this package: in the source tree, beside an installed library, and in a wheel.
SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import shutil
import sys

PACKAGE = pathlib.Path(__file__).resolve().parent
_TREE = PACKAGE.parents[1]


def tree() -> pathlib.Path | None:
    """The source tree, if this package is used in it."""
    return _TREE if (_TREE / "bench" / "columns.def").is_file() else None


def by_pip() -> bool:
    """Whether the package is installed in a Python, rather than in the source tree or beside the library."""
    return not tree() and not (PACKAGE / "programs_dir").exists()


def data() -> str:
    """The folder under which data() / "bench/columns.def" and the like are: the source tree, or a folder of the installed package."""
    return os.fspath(tree() or PACKAGE / "data")


def of(name: str) -> str:
    """A file or folder of the source tree that is installed with the package, such as bench/sweeps."""
    return os.path.join(data(), name)


def programs() -> str:
    """The folder of the compiled programs, such as mpiq-bench: MPIQ_BIN, or the folder in the installation or the build, or what PATH has."""
    if folder := os.environ.get("MPIQ_BIN"):
        return folder
    note = PACKAGE / "programs_dir"  # which cmake --install writes
    if note.exists():
        return os.path.normpath(PACKAGE / note.read_text(encoding="utf-8").strip())
    if place := tree():
        return os.fspath(place / "build" / "release" / "bin")
    found = shutil.which("mpiq-bench")
    return os.path.dirname(os.path.realpath(found)) if found else os.path.join(sys.prefix, "bin")


def environment() -> dict[str, str]:
    """The variables of this process, with which another process finds this package. If pip has installed this package, its Python
    finds it anyway: in PYTHONPATH, the other packages beside it would come before the standard library."""
    if by_pip():
        return dict(os.environ)
    paths = [os.fspath(PACKAGE.parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in dict.fromkeys(paths) if path)}
