"""Reads the sources of figures and reports, by kind of file: FILE.h5 of mpiq-bench, kernels.json, TRAIN.csv of mpiq-train,
QUALITY.csv of mpiq-quality, errors.csv of scripts/frontier."""
import os

from mpi_quant.figures.printed import TooNarrow
from mpi_quant.figures.selection import PlotError
from mpi_quant.results import frontier, kernel_rates, quality_rows, reader, training_runs

KINDS = ("results", "kernels", "training", "quality", "frontier")
PROBLEMS = (PlotError, TooNarrow, reader.ResultsError, kernel_rates.KernelsError, training_runs.TrainingError, quality_rows.QualityError,
            frontier.FrontierError, OSError)  # read raises these


def kind_of(path):
    if path.endswith(".json"):
        return "kernels"
    if path.endswith(".csv"):
        return "quality" if quality_rows.is_quality(path) else "frontier" if frontier.is_errors(path) else "training"
    return "results"


def read(paths, select, title=""):
    """Kind -> its contents, for the kinds that are there. select(results) makes a Selection of the result files."""
    found = {kind: [path for path in paths if kind_of(path) == kind] for kind in KINDS}
    sources, results = {}, [reader.read(path) for path in found["results"]]
    if found["kernels"]:
        sources["kernels"] = kernel_rates.read(found["kernels"], title)
    if results:
        sources["results"] = select(results)
        sources["results"].kernels = sources.get("kernels")
    if found["training"]:
        sources["training"] = training_runs.read(found["training"])
    if found["quality"]:
        sources["quality"] = quality_rows.read(found["quality"])
    if found["frontier"]:
        sources["frontier"] = [point for path in found["frontier"] for point in frontier.read(os.path.dirname(path))]
    return sources
