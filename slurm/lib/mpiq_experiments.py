"""The experiments: what each measures with, and what one of its cells takes."""
import dataclasses
import os
import re
import shutil
import subprocess

import mpiq_sweep as sweeps

PLAN = re.compile(r"^# (\d+) points of .*about (\S+) bytes on each rank; about ([\d.]+) (us|ms|s|min)", re.M)
UNIT_S = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60}
START_S = 20  # seconds of a cell, besides its points


class ExperimentError(Exception):
    """An experiment that cannot be planned."""


@dataclasses.dataclass(frozen=True)
class Experiment:
    """kind: bench (mpiq-bench with a sweep file), kernels, train or dropin. options, and more with --quick: options of its
    program that the command line may replace. time: of a cell, in place of an estimate."""

    kind: str
    sweep: str = ""
    quick_sweep: str = ""
    options: tuple = ()
    quick_options: tuple = ()
    least_ranks: int = 2
    time: str = ""
    gpus: int = 0


QUICK = ("--point-time=0.3", "--max-reps=40")
TRAIN = ("--methods=mpi,bf16,onebit,threshold(quantile=0.97),adaptive", "--network=mlp:512x512", "--optimizer=sgd", "--rate=0.6",
         "--decay=0.7", "--batch=256", "--epochs=6")  # the same as in scripts/mnist
# the same as in scripts/run: what an allreduce of long vectors does
KERNELS = r"/(encode\+feedback|decode\+add)/f32/.*/65536KiB"
ALL = {
    "allreduce": Experiment("bench", "bench/sweeps/reference.toml", "bench/sweeps/quick.toml"),
    "scaling": Experiment("bench", "slurm/sweeps/scaling.toml", quick_options=QUICK),
    "ratio": Experiment("bench", "bench/sweeps/ratio.toml", quick_options=QUICK),
    "sparse": Experiment("bench", "bench/sweeps/sparse.toml", quick_options=QUICK),
    "gpu": Experiment("bench", "bench/sweeps/gpu.toml", quick_options=QUICK, gpus=1),
    "kernels": Experiment("kernels", least_ranks=1, time="60", options=("--benchmark_min_time=0.2",),
                          quick_options=("--benchmark_min_time=0.05", "--benchmark_filter=" + KERNELS)),
    "train": Experiment("train", least_ranks=1, time="120", options=TRAIN, quick_options=("--epochs=2", "--images=10000")),
    "dropin": Experiment("dropin", least_ranks=1),
}


def sweep_of(experiment, options, root):
    """The sweep file of a bench experiment. Other experiments get one that asks for a single launch."""
    if experiment.kind != "bench":
        if options.sweep:
            raise ExperimentError("--sweep: only for experiments of mpiq-bench")
        return None
    word = options.sweep or (options.quick and experiment.quick_sweep) or experiment.sweep
    try:
        return sweeps.read(word if options.sweep else os.path.join(root, word))
    except sweeps.SweepError as problem:
        raise ExperimentError(str(problem)) from problem


@dataclasses.dataclass(frozen=True)
class Estimate:
    """The longest cell: points, memory of a rank as text, seconds."""

    points: int
    memory: str
    seconds: float


def estimate(sweep, combinations, words, bench):
    """What mpiq-bench itself reports, so that wrong options are found before anything is submitted. None and the reason if it
    does not start here, for example on login nodes without the MPI library."""
    # The parts of a launch. There is only one rank here, so each part is estimated as if it were the only one.
    parts = sweep.options.get("ranks", []) if not any(word.split("=")[0] == "--ranks" for word in words) else []
    times = len(parts) if isinstance(parts, list) and parts else 1
    alone = ["--ranks=1"] if parts else []
    found = []
    for combination in combinations[:100]:
        command = [bench, "--config", sweep.path, sweep.section, *(f"--{key}={value}" for key, value in combination), *words,
                   *alone, "--dry-run"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60)
        except subprocess.TimeoutExpired:
            return None, "mpiq-bench --dry-run does not end here"
        said = (done.stderr or done.stdout).strip()
        if done.returncode == 2:
            raise ExperimentError(said)
        match = PLAN.search(done.stdout)
        if done.returncode != 0 or not match:
            return None, f"mpiq-bench does not start here ({said.splitlines()[-1] if said else done.returncode})"
        found.append(Estimate(times * int(match[1]), match[2], times * float(match[3]) * UNIT_S[match[4]] + START_S))
    return max(found, key=lambda e: e.seconds), ""


def refused_by(program, *words):
    """Raises ExperimentError with the message of a program that refuses its options. Does nothing if the program does not
    start."""
    try:
        done = subprocess.run([program, *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return
    if done.returncode == 2:
        raise ExperimentError(done.stderr.strip())


def value_of(words, option):
    """The value of the last `--option VALUE` or `--option=VALUE`; '' if there is none."""
    found = ""
    for word, following in zip(words, [*words[1:], ""]):
        if word == option:
            found = following
        elif word.startswith(option + "="):
            found = word.partition("=")[2]
    return found


def program_version(bench):
    """The version of mpiq-bench; '' if it does not start."""
    try:
        done = subprocess.run([bench, "--version"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                              timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def with_defaults(defaults, words):
    """The words, after those defaults whose option is not among them. If an option has two defaults, the later one counts."""
    given = {word.split("=")[0] for word in words}
    kept = {word.split("=")[0]: word for word in defaults}
    return [*(word for name, word in kept.items() if name not in given), *words]


def program_words(name, words):
    """The words after --, in the form that jobs need, because jobs run in another folder."""
    if name == "dropin":
        if not words:
            raise ExperimentError("dropin: which program? slurm/submit dropin ... -- PROGRAM ARGUMENTS...")
        found = shutil.which(words[0])
        if not found:
            raise ExperimentError(f"dropin: no program '{words[0]}' here")
        return [os.path.abspath(found), *words[1:]]
    if name == "train":
        at = words.index("--data") if "--data" in words else len(words)
        data = (words[at + 1:at + 2] or [os.environ.get("MNIST_DIR", "")])[0]
        if not os.path.isdir(data):
            raise ExperimentError(f"train: no folder '{data}' of MNIST: scripts/get_mnist DIR, then MNIST_DIR=DIR or "
                                  "-- --data DIR")
        return [*words[:at], *words[at + 2:], "--data", os.path.abspath(data)]
    return words


def varied(name, sweep, options):
    """option -> values. Each cell has one value of each option."""
    if name == "dropin":
        return {"variant": ["plain", "advise", *(["policy"] if options.policy else [])]}
    return sweep.varied if sweep else {}
