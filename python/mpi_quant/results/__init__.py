"""Result files of mpiq-bench and mpiq-simulate for notebooks. Needs h5py; a frame needs pandas. No MPI.

    from mpi_quant import results
    points = results.open("shm.h5").points

results/README.md says what the columns mean. SPDX-License-Identifier: Apache-2.0
"""
import os
import sys
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

_NAME = "mpi_quant.results"
_Path = str | os.PathLike[str]


@dataclass(frozen=True)
class File:
    """A result file. Its points are read when it is opened."""

    path: str
    attrs: dict[str, Any]  # of the file and of its last run
    records: Any  # the points as a structured array of numpy: a row for each point, the last one of each key, with text as str
    _samples: Any

    @cached_property
    def points(self) -> Any:
        """The points as a frame of pandas, or `records` where there is no pandas. Not known is NaN, or -1 in a column of integers."""
        try:
            return self.to_pandas()
        except ImportError:
            return self.records

    def to_pandas(self) -> Any:
        """The points as a new frame of pandas. An ImportError if there is no pandas."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError(f"{_NAME}: a frame needs pandas, which cannot be imported: {error}. `records` needs numpy alone") from error
        return pandas.DataFrame.from_records(self.records)

    def samples(self, point_id: int) -> Any:
        """The seconds of each valid repetition of a point, an array of numpy in the order in which they were measured."""
        import numpy as np
        rows = np.flatnonzero(self.records["point_id"] == point_id)
        if len(rows) != 1:
            raise KeyError(f"{self.path}: no point has the point_id {point_id}")
        if self._samples is None:
            raise ValueError(f"{self.path}: has no samples")
        values = self._samples[rows[0]]
        return values[~np.isnan(values)]

    @cached_property
    def runs(self) -> list[dict[str, Any]]:
        """The facts of each run that the file was made of: attributes by name, `config`, and tables such as `nodes` as lists of rows.
        None is a fact that is not known. `mpiq export --format json` writes the same."""
        return [run.facts() for run in _read("whole_files", "load", self.path).runs]

    def __repr__(self) -> str:
        return f"<{_NAME}.File {self.path}: {len(self.records)} points>"


def _read(module: str, function: str, path: _Path) -> Any:
    """What one of the readers makes of a file."""
    refused = _module("reader").ResultsError
    try:
        return getattr(_module(module), function)(path)
    except refused as error:
        raise ValueError(str(error)) from error


def _module(name: str) -> Any:
    """A module of this package."""
    try:
        return import_module(f"mpi_quant.results.{name}")
    except ModuleNotFoundError as error:
        raise ImportError(f"{_NAME} needs {error.name}: {sys.executable} has no module of this name", name=error.name) from error


def open(path: _Path) -> File:
    """Reads a result file. A ValueError says why a file cannot be used."""
    found = _read("reader", "read", path)
    return File(os.fspath(path), found.attrs, found.points, found.samples)
