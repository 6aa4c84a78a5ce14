"""Reads the sources of figures and reports, by kind of file: FILE.h5 of mpiq-bench, kernels.json, TRAIN.csv of mpiq-train,
QUALITY.csv of mpiq-quality."""
import mpiq_kernels
import mpiq_quality
import mpiq_results
import mpiq_training
from mpiq_selection import PlotError

KINDS = ("results", "kernels", "training", "quality")
PROBLEMS = (PlotError, mpiq_results.ResultsError, mpiq_training.TrainingError, mpiq_quality.QualityError, OSError)  # read raises these


def kind_of(path):
    if path.endswith(".json"):
        return "kernels"
    if path.endswith(".csv"):
        return "quality" if mpiq_quality.is_quality(path) else "training"
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
    return sources
