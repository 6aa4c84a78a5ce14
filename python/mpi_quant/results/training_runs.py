"""Reads what mpiq-train writes (TRAIN.csv), and computes the statistics that tables, figures and reports share.

Runs with the same seed have the same first parameters and the same order of images, so methods are compared seed by seed. It
needs only Python itself.
"""
import csv
import dataclasses
import math
import statistics

# Student's t, two-sided 95 %, by degrees of freedom. For more than 30 degrees the last value is used, which
# is 2 % too large at 60.
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110,
       2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)
DENSE, BF16 = "mpi", "bf16"
# runs that differ in these are not compared
SETTING = ("network", "parameters", "optimizer", "adapt", "half_batches", "batch", "rate", "warmup", "ramp", "link", "local_steps", "outer_rate", "outer_momentum",
           "momentum", "second_momentum", "weight_decay")
# columns that earlier files lack, and what they mean there
LATER = {"warmup": "0", "ramp": "", "local_steps": "0", "outer_rate": "", "outer_momentum": "", "momentum": "", "second_momentum": "", "weight_decay": ""}
WHOLE = ("seed", "ranks", "oversubscribed", "parameters", "batch", "epoch", "step")
TIMES = ("train_s", "compute_s", "reduce_s", "update_s", "encode_s", "decode_s", "wait_s")  # since the start, without tests
NEEDED = ("method", "feedback", *(name for name in SETTING if name not in LATER), "seed", "ranks", "oversubscribed", "epoch", "step", "loss", "accuracy", *TIMES, "sent_bytes")


class TrainingError(Exception):
    """A file that cannot be used; the message names it and says why."""


@dataclasses.dataclass
class Training:
    """groups: (setting, ranks) -> (method, feedback) -> seed -> the rows of that run, with numbers as numbers. feedback is ""
    for dense gradients, which have none. Logistic regressions, which have neither batches nor test images, are left out."""

    groups: dict
    files: list


def timed(methods):
    """Whether the times of a group mean anything: every rank had a core."""
    return not any(row["oversubscribed"] for runs in methods.values() for run in runs.values() for row in run)


def _row(path, line, row):
    """A row with its numbers. Raises TrainingError if one is not a number."""
    out = dict(row)
    for name in (*WHOLE, "loss", "accuracy", *TIMES, "sent_bytes"):
        try:
            if name == "sent_bytes" and row[name] == "":
                out[name] = None
                continue
            out[name] = int(row[name]) if name in (*WHOLE, "sent_bytes") else float(row[name])
            if name == "loss":  # of a run that diverged it may be anything
                continue
            if not math.isfinite(out[name]) or out[name] < (1 if name in ("ranks", "parameters", "batch", "epoch", "step") else 0):
                raise ValueError
        except (TypeError, ValueError) as error:
            raise TrainingError(f"{path}: line {line}: {name} is '{row[name]}'") from error
    if out["accuracy"] > 1:
        raise TrainingError(f"{path}: line {line}: accuracy is '{row['accuracy']}'")
    return out


def _read(path, groups):
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        reader.fieldnames = ["adapt" if name == "adagrad" else name for name in reader.fieldnames or ()]  # the earlier name
        missing = [name for name in NEEDED if name not in reader.fieldnames]
        if missing:
            raise TrainingError(f"{path}: not a file of mpiq-train: lacks the columns {', '.join(missing)}")
        mine = {}
        for row in reader:
            row = {**LATER, **_row(path, reader.line_num, row)}
            setting = tuple(row[name] for name in SETTING)
            feedback = "" if row["method"] == DENSE else "on" if row["feedback"] == "1" else "off"
            key = (setting, row["ranks"]), (row["method"], feedback), row["seed"]
            run = mine.setdefault(key, [])
            if run and row["step"] <= run[-1]["step"]:
                run.clear()  # the run began anew, and the last one counts
            run.append(row)
    if not mine:
        raise TrainingError(f"{path}: has no rows: nothing was trained")
    for (group, method, seed), run in mine.items():
        groups.setdefault(group, {}).setdefault(method, {})[seed] = run


def read(paths):
    """The Training of files. If a run is in several files, the last counts. Raises TrainingError."""
    groups = {}
    for path in paths:
        try:
            _read(path, groups)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise TrainingError(f"{path}: {error}") from error
    return Training({key: methods for key, methods in groups.items()
                     if not dict(zip(SETTING, key[0]))["network"].startswith("logistic")}, list(paths))


def order(method):
    """Key to sort (method, feedback) by: dense first, methods without feedback last."""
    return method[1] == "off", method[0] != DENSE, method[0]


def name_of(method):
    """'onebit', 'onebit/no feedback'."""
    return method[0] + ("/no feedback" if method[1] == "off" else "")


def mean_and_half_interval(values):
    """The mean, and half of its 95 % interval by Student's t; the latter is None for a single value."""
    n, mean = len(values), sum(values) / len(values)
    if n < 2:
        return mean, None
    deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1))
    return mean, T95[min(n - 2, len(T95) - 1)] * deviation / math.sqrt(n)


def with_interval(text, half, form=".3f"):
    return text if half is None else f"{text} ± {half:{form}}"


def accuracy(runs):
    """(mean, half interval) of the last test, in per cent."""
    return mean_and_half_interval([100 * run[-1]["accuracy"] for run in runs.values()])


def difference(runs, base):
    """(mean, half interval) of the accuracy minus the accuracy of the base, seed by seed, in points; None without common seeds."""
    seeds = sorted(set(runs) & set(base))
    return mean_and_half_interval([100 * (runs[s][-1]["accuracy"] - base[s][-1]["accuracy"]) for s in seeds]) if seeds else None


def bytes_sent(runs):
    """The bytes that the busiest rank sends per parameter and step; None if not known, as for dense gradients."""
    sent = [run[-1]["sent_bytes"] / run[-1]["step"] / run[-1]["parameters"] for run in runs.values()
            if run[-1]["sent_bytes"] is not None]
    return sum(sent) / len(sent) if sent else None


def step_seconds(runs, name="train_s"):
    """The seconds per step, the median over seeds."""
    return statistics.median(run[-1][name] / run[-1]["step"] for run in runs.values())


def speedup(runs, base):
    """(ratio, low, high): the time of a step of the base divided by the time of a step of the runs, seed by seed. It is the geometric mean
    with its 95 % interval; the interval is None for one seed. None without common seeds."""
    seeds = sorted(set(runs) & set(base))
    ratios = [math.log(base[s][-1]["train_s"] / base[s][-1]["step"]) - math.log(runs[s][-1]["train_s"] / runs[s][-1]["step"])
              for s in seeds if min(base[s][-1]["train_s"], runs[s][-1]["train_s"]) > 0]
    if not ratios:
        return None
    mean, half = mean_and_half_interval(ratios)
    return math.exp(mean), *((math.exp(mean - half), math.exp(mean + half)) if half is not None else (None, None))


def target_of(methods):
    """The highest accuracy, in whole thousandths, that dense gradients reach with every seed. It is lower if another run ended
    before the longest, as mpiq-train --target ends runs, and reached less."""
    longest = max(run[-1]["step"] for runs in methods.values() for run in runs.values())
    least = min(max(row["accuracy"] for row in run) for method, runs in methods.items() for run in runs.values()
                if method == (DENSE, "") or run[-1]["step"] < longest)
    return math.floor(least * 1000 + 1e-9) / 1000


def first_rows(runs, target):
    """The first test of each seed with that accuracy; None if it is not reached."""
    return {seed: next((row for row in run if row["accuracy"] >= target), None) for seed, run in runs.items()}


def to_target(runs, target):
    """(seconds, steps) of each seed until the first test with that accuracy; None if it is not reached."""
    return {seed: row and (row["train_s"], row["step"]) for seed, row in first_rows(runs, target).items()}


def stopped_early(methods):
    """The names of the methods with runs that ended before the longest of all, 'onebit (1 of 5)'."""
    longest = max(run[-1]["step"] for runs in methods.values() for run in runs.values())
    short = {m: sum(run[-1]["step"] < longest for run in methods[m].values()) for m in sorted(methods, key=order)}
    return [f"{name_of(m)} ({n} of {len(methods[m])})" for m, n in short.items() if n]


def local_words(said):
    """'8 local steps, then one at outer rate 0.7 with outer momentum 0.9'. said: a row, or a setting by name."""
    return f"{said['local_steps']} local steps, then one at outer rate {said['outer_rate']} with outer momentum {said['outer_momentum']}"


def optimizer_words(said):
    """'sgd', 'momentum 0.9', 'adamw with betas 0.9 and 0.999 and weight decay 0.01'; then ' before sending' if it works there. said: as above."""
    numbers = f" {said['momentum']}" if said["momentum"] else ""
    if said["second_momentum"]:
        numbers = f" with betas {said['momentum']} and {said['second_momentum']} and weight decay {said['weight_decay']}"
    return said["optimizer"] + numbers + (" before sending" if said["adapt"] == "before" else "")


def setting_words(setting):
    """'mlp:64x64, 55050 parameters, momentum 0.9, batch 256, rate 0.02'."""
    said = dict(zip(SETTING, setting))
    more = [f", {said['warmup']} steps of warm-up"] if said["warmup"] != "0" else []
    more += [f", k of the first epochs {said['ramp'].replace(' ', ', ')}"] if said["ramp"] else []
    more += [", half batches"] if said["half_batches"] == "1" else []
    more += [f", {local_words(said)}"] if said["local_steps"] != "0" else []
    return (f"{said['network']}, {said['parameters']} parameters, {optimizer_words(said)}, batch {said['batch']}, rate {said['rate']}"
            + "".join(more) + (f", {said['link']}" if said["link"] else ""))
