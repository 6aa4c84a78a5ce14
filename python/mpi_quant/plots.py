"""The figures of `mpiq plot` for notebooks: on the user's axes, with the user's settings and backend. Needs h5py and matplotlib. No MPI.

    from mpi_quant import plots, results
    plots.speedup(results.open("shm.h5").points)

Each function takes points: a frame of pandas or an array of numpy as mpi_quant.results makes them, whole or some of the rows. It draws
on `ax` and returns the figure of `ax`. Without `ax` it makes a figure of its own, with a panel for each link, number of ranks,
type of element and input. A ValueError says why points cannot be drawn. SPDX-License-Identifier: Apache-2.0
"""
import sys
from importlib import import_module
from typing import Any

import numpy as np

_NAME = "mpi_quant.plots"


def _module(name: str) -> Any:
    """A module of this package that needs h5py or matplotlib."""
    try:
        return import_module(f"mpi_quant.{name}")
    except ModuleNotFoundError as error:
        raise ImportError(f"{_NAME} needs {error.name}: {sys.executable} has no module of this name", name=error.name) from error


def _records(points: Any, reader: Any) -> Any:
    """The points as the readers make them: a structured array with text as str."""
    names = points.dtype.names if isinstance(points, np.ndarray) else getattr(points, "columns", None)
    if names is None:
        raise TypeError(f"{_NAME}: points are a frame of pandas or a structured array of numpy, not {type(points).__name__}")
    if lacking := [name for name in reader.NEEDED if name not in names]:
        raise ValueError(f"{_NAME}: points lack the columns {', '.join(lacking)}")
    if len(points) == 0:
        raise ValueError(f"{_NAME}: there are no points to draw")
    columns = {name: np.asarray(points[name]) for name in names}
    columns = {name: values.astype(str) if values.dtype == object else values for name, values in columns.items()}
    out = np.empty(len(points), dtype=[(name, values.dtype) for name, values in columns.items()])
    for name, values in columns.items():
        out[name] = values
    return out


def _draw(name: str, points: Any, ax: Any) -> Any:
    _module("figures.plots")  # registers them
    function = _module("figures.register").PLOTS[name]
    reader, select, look = (_module(module) for module in ("results.reader", "figures.selection", "figures.look"))
    results = reader.Results(_records(points, reader), {"file": "points", "hosts": [], "cpus": [], "commits": []})
    try:
        figure, _ = function(select.Selection([results], [], ""), ax)
    except select.PlotError as error:
        raise ValueError(f"{_NAME}: {error}") from error
    if ax is None:
        look.lay_out(figure, with_words=False)
    return figure


def speedup(points: Any, ax: Any = None) -> Any:
    """Draws the paired speed-up over the baseline of the measurement against the size of the vector. Bands are 95 % intervals."""
    return _draw("speedup", points, ax)


def time(points: Any, ax: Any = None) -> Any:
    """Draws the time of a call in seconds against the size of the vector. Bands are 95 % intervals."""
    return _draw("time", points, ax)


def error(points: Any, ax: Any = None) -> Any:
    """Draws the relative L2 error of one call against the size of the vector."""
    return _draw("error", points, ax)


def pareto(points: Any, ax: Any = None) -> Any:
    """Draws the error against the speed-up of each method at the largest size, with the front of the best."""
    return _draw("pareto", points, ax)
