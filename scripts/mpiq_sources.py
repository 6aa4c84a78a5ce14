"""Reads the sources of figures and reports, by kind of file: FILE.h5 of mpiq-bench, kernels.json, TRAIN.csv of mpiq-train,
QUALITY.csv of mpiq-quality, errors.csv of scripts/frontier."""
import os

import mpiq_frontier
import mpiq_kernels
import mpiq_quality
import mpiq_results
import mpiq_training
from mpiq_selection import PlotError

KINDS = ("results", "kernels", "training", "quality", "frontier")
PROBLEMS = (PlotError, mpiq_results.ResultsError, mpiq_training.TrainingError, mpiq_quality.QualityError,
            mpiq_frontier.FrontierError, OSError)  # read raises these


def kind_of(path):
    if path.endswith(".json"):
        return "kernels"
    if path.endswith(".csv"):
        return "quality" if mpiq_quality.is_quality(path) else "frontier" if mpiq_frontier.is_errors(path) else "training"
    return "results"


def read(paths, select, title=""):
    """Kind -> its contents, for the kinds that are there. select(results) makes a Selection of the result files."""
    found = {kind: [path for path in paths if kind_of(path) == kind] for kind in KINDS}
    sources, results = {}, [mpiq_results.read(path) for path in found["results"]]
    if found["kernels"]:
        sources["kernels"] = mpiq_kernels.read(found["kernels"], title)
    if results:
        sources["results"] = select(results)
        sources["results"].kernels = sources.get("kernels")
    if found["training"]:
        sources["training"] = mpiq_training.read(found["training"])
    if found["quality"]:
        sources["quality"] = mpiq_quality.read(found["quality"])
    if found["frontier"]:
        sources["frontier"] = [point for path in found["frontier"] for point in mpiq_frontier.read(os.path.dirname(path))]
    return sources
