"""Builds the package where pip is given this folder: what pyproject.toml of the tree says, one folder up. SPDX-License-Identifier: Apache-2.0

pip builds a local folder where it is, and starts a process for each of these functions (PEP 517, PEP 660), so another current folder is
nobody else's.
"""
import os
import pathlib

_here = pathlib.Path(__file__).resolve().parent
if not (_here.parent / "pyproject.toml").is_file():
    raise RuntimeError(f"{_here} is not in the source tree of mpi_quant: take `pip install .` in the tree, or a wheel")
os.chdir(_here.parent)

from scikit_build_core.build import (  # noqa: E402  it reads the current folder
    build_editable, build_sdist, build_wheel, get_requires_for_build_editable, get_requires_for_build_sdist, get_requires_for_build_wheel,
    prepare_metadata_for_build_editable, prepare_metadata_for_build_wheel)

__all__ = [
    "build_editable", "build_sdist", "build_wheel", "get_requires_for_build_editable", "get_requires_for_build_sdist", "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable", "prepare_metadata_for_build_wheel",
]
