"""Which Python runs a command, and what is said where it lacks a module. Nothing here is imported that is not in the standard library.

The launchers of the source tree, and the command that is installed beside the library, begin with `#!/usr/bin/env python3`: the Python of an
active environment (venv, conda, a module) runs them. If none is active and the first Python of PATH lacks a module, Debian's own goes on,
because scripts/setup installs for it. A command that pip has installed stays with its Python. SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Iterable

from mpi_quant import _places

DEBIAN = "/usr/bin/python3"
FILES, FIGURES = ("numpy", "h5py"), ("numpy", "h5py", "matplotlib")
# Commands that need more than the standard library.
NEEDS = {
    "check": FILES, "compare": FILES, "export": FILES, "merge": FILES, "sweep": FILES, "table": FILES, "quality": ("numpy",),
    "plot": FIGURES, "policy": FIGURES, "report": FIGURES, "simulate": FIGURES,
}


def is_environment() -> bool:
    """Whether the user has chosen this Python."""
    conda = os.environ.get("CONDA_PREFIX")  # it stays set where another Python comes first on PATH
    return sys.prefix != sys.base_prefix or bool(conda) and os.path.realpath(sys.prefix) == os.path.realpath(conda or "")


def place(name: str) -> str:
    spec = importlib.util.find_spec(name)
    return spec.origin if spec and spec.origin else "nowhere"


def broken(modules: Iterable[str]) -> str:
    """Why modules that are there cannot be imported; '' if they can. What they print themselves is many lines long."""
    noise = io.StringIO()
    for name in modules:
        try:
            with contextlib.redirect_stderr(noise):
                importlib.import_module(name)
        except Exception as error:  # pylint: disable=broad-exception-caught  # modules for another numpy raise several kinds
            numpy = sys.modules.get("numpy")
            built = f", with numpy {getattr(numpy, '__version__', '?')} ({place('numpy')})" if name != "numpy" else ""
            return (f"{name} ({place(name)}) cannot be imported{built}: {' '.join(str(error).split())[:200]}. "
                    "Its version must fit numpy's: try PYTHONNOUSERSITE=1, or an environment with both")
    sys.stderr.write(noise.getvalue())
    return ""


def settle(program: str, modules: Iterable[str]) -> None:
    """Returns if the modules can be imported. Otherwise goes on with another Python, or ends with one line.

    program: the name of the command, for that line.
    """
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing and not _places.by_pip() and not is_environment() and os.access(DEBIAN, os.X_OK) and os.path.realpath(sys.executable) != os.path.realpath(DEBIAN):
        sys.stdout.flush()
        if sys.argv[0].endswith("__main__.py"):  # python3 -m mpi_quant
            os.execve(DEBIAN, [DEBIAN, "-P", "-m", "mpi_quant", *sys.argv[1:]], _places.environment())
        os.execv(DEBIAN, [DEBIAN, *sys.argv])
    if missing:
        them = "it" if len(missing) == 1 else "them"
        how = f"run scripts/setup plot, or activate an environment that has {them}" if _places.tree() else f"pip install {' '.join(missing)}"
        sys.exit(f"{program}: {sys.executable} has no module {', '.join(missing)}: {how}")
    if problem := broken(modules):
        sys.exit(f"{program}: {problem}")
