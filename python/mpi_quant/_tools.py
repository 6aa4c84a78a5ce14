"""Finds the tools for result files. They lie beside the folder of this package, in the source tree and where `cmake --install` puts both.
SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "scripts"


def missing(path: pathlib.Path) -> str:
    """Why a tool is not there."""
    return (f"{path} is missing: a wheel holds the library for Python alone. The tools for result files are in the source tree and in the "
            "folder share/mpi_quant of an installed mpi_quant")


@contextmanager
def importable(name: str) -> Iterator[None]:
    """Inside, the modules of the tools can be imported. name: what the user has asked for, for the errors."""
    if not (FOLDER / "mpiq_results.py").exists():
        raise ImportError(f"{name}: {missing(FOLDER / 'mpiq_results.py')}")
    sys.path.insert(0, str(FOLDER))
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(f"{name} needs {error.name}: {sys.executable} has no module of this name", name=error.name) from error
    finally:
        sys.path.remove(str(FOLDER))


def module(name: str, user: str) -> ModuleType:
    """A module of the tools. user: the module that needs it."""
    with importable(user):
        return import_module(name)
