"""Which Python runs a script of this folder, and what is said where it lacks a module. To be imported before all that is not in the standard
library.

The scripts begin with `#!/usr/bin/env python3`: the Python of an active environment (venv, conda, a module) runs them. If none is active
and the first Python of PATH lacks a module, Debian's own goes on, because scripts/setup installs for it.
"""
import contextlib
import importlib
import importlib.util
import io
import os
import sys

DEBIAN = "/usr/bin/python3"
FILES, FIGURES = ("numpy", "h5py"), ("numpy", "h5py", "matplotlib")
# Scripts that need more than the standard library.
NEEDS = {
    "entropy": ("numpy",), "frontier": ("numpy",), "quality": ("numpy",),
    "check_results": FILES, "compare": FILES, "export": FILES, "merge": FILES, "mpiq_results.py": FILES, "sweep": FILES,
    "plot": FIGURES, "policy": FIGURES, "readme_tables": FIGURES, "report": FIGURES, "simulate": FIGURES,
}


def is_environment():
    """Whether the user has chosen this Python."""
    conda = os.environ.get("CONDA_PREFIX")  # it stays set where another Python comes first on PATH
    return sys.prefix != sys.base_prefix or bool(conda) and os.path.realpath(sys.prefix) == os.path.realpath(conda)


def place(name):
    spec = importlib.util.find_spec(name)
    return spec.origin if spec and spec.origin else "nowhere"


def broken(modules):
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


def settle(program, modules):
    """Returns if the modules can be imported. Otherwise goes on with another Python, or ends with one line."""
    if "matplotlib" in modules:
        os.environ["MPLBACKEND"] = "Agg"  # that of a notebook is no backend here, and no display is needed
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing and not is_environment() and os.access(DEBIAN, os.X_OK) and os.path.realpath(sys.executable) != os.path.realpath(DEBIAN):
        sys.stdout.flush()
        os.execv(DEBIAN, [DEBIAN, *sys.argv])
    if missing:
        sys.exit(f"{program}: {sys.executable} has no module {', '.join(missing)}: run scripts/setup plot, or activate an environment that has "
                 f"{'it' if len(missing) == 1 else 'them'}")
    if problem := broken(modules):
        sys.exit(f"{program}: {problem}")


_NAME = os.path.basename(sys.argv[0]) if sys.argv else ""
if _NAME in NEEDS and os.path.dirname(os.path.realpath(sys.argv[0])) == os.path.dirname(os.path.realpath(__file__)):
    settle(f"scripts/{_NAME}", NEEDS[_NAME])
