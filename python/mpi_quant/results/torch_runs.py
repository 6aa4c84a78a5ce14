"""What scripts/mnist_torch measures: DistributedDataParallel on MNIST with torch's hooks over gloo and with the hooks of mpi_quant.torch. It needs
only Python itself.

A folder has accuracy.csv, with the columns of mpiq-train (training_runs) but without times; errors.csv and times.csv, with the columns of
scripts/frontier and some more; and runs.json, which says how each part was measured.
"""
import itertools
import math
import os
import re
import statistics

from mpi_quant.results import frontier, training_runs

ACCURACY, ERRORS, TIMES, RUNS = "accuracy.csv", "errors.csv", "times.csv", "runs.json"
ACCURACY_COLUMNS = ("method", "feedback", "seed", "ranks", *training_runs.SETTING[:7], "warmup", "ramp", "epoch", "step", "loss", "accuracy",
                    *training_runs.TIMES, "sent_bytes", "link", "oversubscribed")
ERROR_COLUMNS = (*frontier.ERROR_COLUMNS, "link", "seed")  # of the training that the gradients are of
TIME_COLUMNS = (*frontier.TIME_COLUMNS, "sent_bytes")  # by the counter of the interface, with TCP and agreements
COLUMNS = {ACCURACY: ACCURACY_COLUMNS, ERRORS: ERROR_COLUMNS, TIMES: TIME_COLUMNS}
# What a row is about. One that is measured again replaces the old one.
IDENTITY = {ACCURACY: ("method", "network", "seed"), ERRORS: ("method", "data", "seed"), TIMES: ("method", "data", "link", "launch")}

DENSE, ALONE, AUTO = "gloo", "none", "auto(error=feedback)"
POWERSGD = tuple(f"gloo+powersgd(rank={rank})" for rank in (8, 4, 2, 1))
TRAINED = (DENSE, "gloo+fp16", "gloo+bf16", POWERSGD[1], "bf16", "int8", "int4", "onebit", "lowrank(rank=4)", AUTO)
LOWRANK = tuple(f"lowrank(rank={rank})" for rank in (8, 4, 2, 1))
REPLAYED = (*TRAINED[:3], *POWERSGD, *LOWRANK, "onebit", "adaptive", "bound(rel=0.5)", "int4", "int8", "bf16", AUTO)

BEYOND = 1.05  # by so much a method may send more or less than the ranks of PowerSGD


class TorchRunsError(Exception):
    """Files that cannot be used; the message names them and says why."""


def parts_of(method):
    """The method of the library, and the argument `small` of State, of a method of ours such as "onebit small=1024". None: the default."""
    name, _, small = method.partition(" small=")
    return name, int(small) if small else None


def is_ours(method):
    return not method.startswith(DENSE) and method != ALONE


def is_folder(folder):
    """Whether a folder of results is one of scripts/mnist_torch."""
    return os.path.exists(os.path.join(folder, ACCURACY)) and os.path.exists(os.path.join(folder, RUNS))


def complete(row):
    """A row of ACCURACY with the columns that mpiq-train has and that mean nothing here: no times are measured."""
    later = {name: preset for name, preset in training_runs.LATER.items() if name in ACCURACY_COLUMNS}
    return {**dict.fromkeys(training_runs.TIMES, 0), **later, "oversubscribed": 1, **row}


class Network:
    """What is known of one network: method -> its training runs, errors (seed -> row) and step times."""

    def __init__(self, name, folder, runs):
        self.name, self.runs = name, {method: by_seed for (method, _), by_seed in runs.items()}
        self.errors = {}
        for row in frontier.read_table(os.path.join(folder, ERRORS), ERROR_COLUMNS):
            if row["data"] == name:
                self.errors.setdefault(row["method"], {})[row["seed"]] = row
        times_path = os.path.join(folder, TIMES)
        rows = frontier.read_table(times_path, TIME_COLUMNS) if os.path.exists(times_path) else []
        self.times = {}
        for row in rows:
            if row["data"] == name and row["oversubscribed"] == "0":
                self.times.setdefault(row["method"], []).append(row)

    @property
    def parameters(self):
        return next(iter(next(iter(self.runs.values())).values()))[-1]["parameters"]

    def bytes(self, method):
        """Of a step, sent by a rank; the mean over seeds."""
        return statistics.fmean(float(row["bytes"]) for row in self.errors[method].values()) if method in self.errors else math.nan

    def error(self, method):
        """The geometric mean over seeds."""
        return statistics.geometric_mean(float(row["error"]) for row in self.errors[method].values()) if method in self.errors else math.nan

    def step_s(self, method):
        """The median over launches of the median of a step; None if it was not measured."""
        rows = self.times.get(method)
        return statistics.median(float(row["t_median_s"]) for row in rows) if rows else None

    def target(self):
        """The highest accuracy, in whole per cents, that dense gradients have at the end with every seed, of all images of the test."""
        return math.floor(min(100 * run[-1]["accuracy"] for run in self.runs[DENSE].values()) + 1e-9) / 100

    def over_powersgd(self, method):
        """The error of a method divided by the error of torch's PowerSGD with as many bytes, seed by seed: (geometric mean over seeds, (least,
        greatest) of its 95 % interval, or None with one seed). None where the ranks of PowerSGD do not reach; the few bytes of an agreement are no
        reason."""
        found = [self._over_powersgd(row) for row in self.errors.get(method, {}).values()]
        if not found or None in found:
            return None
        mean, half = training_runs.mean_and_half_interval([math.log(ratio) for ratio in found])
        return math.exp(mean), None if half is None else (math.exp(mean - half), math.exp(mean + half))

    def _over_powersgd(self, row):
        """Of one seed, on logarithmic axes between the ranks of PowerSGD."""
        rows = [self.errors[other].get(row["seed"]) for other in POWERSGD if other in self.errors]
        curve = sorted((float(other["bytes"]), float(other["error"])) for other in rows if other)
        size, error = float(row["bytes"]), float(row["error"])
        if not curve or not curve[0][0] / BEYOND <= size <= curve[-1][0] * BEYOND:
            return None
        for (low, high_error), (high, low_error) in itertools.pairwise(curve):
            if size <= high or high == curve[-1][0]:
                share = math.log(size / low) / math.log(high / low)
                return error / math.exp((1 - share) * math.log(high_error) + share * math.log(low_error))
        return None


def read(folder):
    """The networks of a folder, in the order of its files. Raises TorchRunsError, TrainingError or FrontierError."""
    groups = training_runs.read([os.path.join(folder, ACCURACY)]).groups
    by_network = {}
    for (setting, _), methods in groups.items():  # the link is a part of the setting
        by_network.setdefault(dict(zip(training_runs.SETTING, setting))["network"], {}).update(methods)
    for name, methods in by_network.items():
        if DENSE not in {method for method, _ in methods}:
            raise TorchRunsError(f"{folder}: {ACCURACY} has no runs of '{DENSE}' on {name}")
    return [Network(name, folder, methods) for name, methods in by_network.items()]


def seconds_to_target(network, method):
    """Steps until the target, the median over seeds, times the step time; '' if not known, '3 of 5' if not all seeds reach it."""
    reached = [found and found[1] for found in training_runs.to_target(network.runs[method], network.target()).values()]
    if None in reached:
        return f"{len(reached) - reached.count(None)} of {len(reached)} seeds reach it"
    steps, step_s = statistics.median(reached), network.step_s(method)
    return f"{steps * step_s:.1f} s, {steps:g} steps" if step_s else f"{steps:g} steps"


def ratio(found):
    """'1.05 [0.98, 1.12]' of what over_powersgd() returns."""
    if found is None:
        return ""
    mean, interval = found
    return f"{mean:.2f}" + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")


def table_rows(network):
    """A line for each method that was trained or replayed."""
    for method in dict.fromkeys((*TRAINED, *REPLAYED, *network.errors, *network.runs)):
        if method not in network.errors and method not in network.runs:
            continue
        row = [f"`{method}`", f"{network.bytes(method) / 1000:.1f}" if method in network.errors else "", f"{network.error(method):.2g}" if method in network.errors else "",
               ratio(network.over_powersgd(method)) if is_ours(method) else ""]
        if method in network.runs:
            runs = network.runs[method]
            mean, half = training_runs.accuracy(runs)
            row.append(training_runs.with_interval(f"{mean:.2f}", half))
            less = training_runs.difference(runs, network.runs[DENSE]) if method != DENSE else None
            row.append(training_runs.with_interval(f"{less[0]:+.2f}", less[1]) if less else "")
        else:
            row += ["", ""]
        step_s = network.step_s(method)
        row.append(f"{1e3 * step_s:.1f}" if step_s else "")
        row.append(seconds_to_target(network, method) if method in network.runs else "")
        yield row


def head(network):
    return ("method", "kB of a step", "error of the sum", "over PowerSGD's", "accuracy, %", "less dense, points", "step, ms",
            f"to {100 * network.target():.0f} %")


def verdict(network):
    """A sentence: which of ours are under, above and not told apart from PowerSGD's curve of error against bytes, by the intervals over seeds."""
    found = {method: network.over_powersgd(method) for method in network.errors if is_ours(method)}
    intervals = {method: each[1] for method, each in found.items() if each and each[1]}
    words = []
    for what, these in (("under the curve", [m for m, (_, most) in intervals.items() if most < 1]),
                        ("not told apart from it", [m for m, (least, most) in intervals.items() if least <= 1 <= most]),
                        ("above it", [m for m, (least, _) in intervals.items() if least > 1]),
                        ("measured with one seed, so not judged", [m for m, each in found.items() if each and not each[1]]),
                        ("with fewer or more bytes than its ranks 1 to 8", [m for m, each in found.items() if not each])):
        if these:
            words.append(f"{what}: {', '.join(f'`{m}`' for m in these)}")
    return "Ours against torch's PowerSGD (rank 1 to 8), error of the sum at equal bytes: " + "; ".join(words) + "."


def setting(network):
    """'mlp:512x512, 669706 parameters, momentum 0.5, batch 128, rate 0.1, 2 ranks, 5 seeds, 469 steps'."""
    runs = network.runs[DENSE]
    row = next(iter(runs.values()))[-1]
    link = next((row["link"] for rows in network.times.values() for row in rows), "")
    return (f"{row['network']}, {row['parameters']} parameters, {row['optimizer']}, batch {row['batch']}, rate {row['rate']}, {row['ranks']} ranks, "
            f"{len(runs)} seeds, {row['step']} steps" + (f"; steps over {re.sub(r'^lab-', 'the lab at ', link)}" if link else ""))
