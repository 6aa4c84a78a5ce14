"""Files as scripts/mnist_torch writes them, for the tests of what reads them."""
import os
from types import MappingProxyType

from frontier_files import write_csv
from mpi_quant.results import torch_runs

NETWORK = "mlp:512x512"
# method -> bytes of a step and error of the sum, with the first seed
ERRORS = {"gloo": (2_000_000, 1e-8), "gloo+powersgd(rank=8)": (100_000, 0.05), "gloo+powersgd(rank=4)": (50_000, 0.1), "gloo+powersgd(rank=2)": (25_000, 0.2),
          "gloo+powersgd(rank=1)": (12_500, 0.4), "lowrank(rank=4)": (50_000, 0.102), "onebit": (100_000, 0.1), "adaptive": (25_000, 0.1), "int8": (500_000, 0.001)}


def accuracy_rows(method, seed, accuracies, **changes):
    """A test each 10 steps."""
    for number, accuracy in enumerate(accuracies, 1):
        yield torch_runs.complete({"method": method, "feedback": 1, "seed": seed, "ranks": 2, "network": NETWORK, "parameters": 500_000, "optimizer": "momentum 0.5",
                                   "adapt": "after", "half_batches": 0, "batch": 128, "rate": 0.1, "epoch": 1, "step": 10 * number, "loss": 1 / number,
                                   "accuracy": accuracy, "sent_bytes": 1000 * number, "link": "shm", **changes})


def time_row(method, seconds, launch=0, **changes):
    return {"method": method, "data": NETWORK, "link": "lab-1gbit", "launch": launch, "calls": 50, "t_median_s": seconds, "t_lo_s": seconds, "t_hi_s": seconds,
            "oversubscribed": 0, "sent_bytes": 1000, **changes}


def write(folder, trained, times=(), worse=MappingProxyType({})):
    """trained: iterables of accuracy_rows. worse: method -> by how much its error is greater with the second seed."""
    write_csv(os.path.join(folder, torch_runs.ACCURACY), torch_runs.ACCURACY_COLUMNS, [row for rows in trained for row in rows])
    write_csv(os.path.join(folder, torch_runs.ERRORS), torch_runs.ERROR_COLUMNS, [
        {"method": method, "data": NETWORK, "elements": 500_000, "row": 0, "ranks": 2, "calls": 50, "bytes": size, "error": error, "debt": 1, "first_error": 1,
         "link": "shm", "seed": seed} for method, (size, error) in ERRORS.items() for seed, error in ((1, error), (2, worse.get(method, 1) * error))])
    if times:
        write_csv(os.path.join(folder, torch_runs.TIMES), torch_runs.TIME_COLUMNS, times)
    with open(os.path.join(folder, torch_runs.RUNS), "w", encoding="utf-8") as file:
        file.write("[]\n")
    return folder
