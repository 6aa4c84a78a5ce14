"""What mpiq submit would start: the experiments, their cells, and what the programs and the site say."""
import argparse
import collections
import itertools
import os
import re
import shutil
import subprocess
import sys
import typing

from mpi_quant import _places
from mpi_quant.commands import command_line
from mpi_quant.slurm.run_folder import Cell, Refused
from mpi_quant.sweep import sweep_files as sweeps

MOST_CELLS = 10000  # their numbers are in one word of a command line
UNIT_S = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60}
LAUNCHERS = ("srun:pmi2", "srun:pmix", "srun:cray_shasta", "hydra", "openmpi")
DEFAULTS = {"partition": "", "account": "", "qos": "", "constraint": "", "modules": "", "launcher": "srun:pmi2", "link": "", "out": ".",
            "python": sys.executable, "small_partition": "", "sbatch_options": [], "srun_options": []}
GONE = {"max_nodes": "sbatch --test-only says what a partition has", "min_free_mb": "a cell tries to write before it begins"}
VARIABLES = ("HOME", "USER", "PATH", "LANG", "SCRATCH", "WORK")  # that a site may use: another of the login shell is no setting

# Prints the known settings as NAME=VALUE, each ended by a zero byte; of a list, each word like that.
READER = r"""
source "$1" >&2 || exit 1
for name in $2; do declare -n list=$name; for value in "${list[@]}"; do printf '%s=%s\0' "$name" "$value"; done; done
"""


class Experiment(typing.NamedTuple):
    """kind: bench (mpiq-bench with a sweep file), kernels, train or dropin. options, and more with --quick: options of its
    program that the command line may replace. time: of a cell, in minutes, where mpiq-bench does not say it."""

    kind: str
    sweep: str = ""
    quick_sweep: str = ""
    options: tuple = ()
    quick_options: tuple = ()
    time: str = ""
    gpus: int = 0


QUICK = ("--point-time=0.3", "--max-reps=40")
TRAIN = ("--methods=mpi,bf16,onebit,threshold(quantile=0.97),adaptive", "--network=mlp:512x512", "--optimizer=sgd", "--rate=0.6",
         "--decay=0.7", "--batch=256", "--epochs=6")  # the same as in scripts/mnist
KERNELS = r"/(encode\+feedback|decode\+add)/f32/.*/65536KiB"  # as in scripts/run: what an allreduce of long vectors does
EXPERIMENTS = {
    "allreduce": Experiment("bench", "bench/sweeps/reference.toml", "bench/sweeps/quick.toml"),
    "scaling": Experiment("bench", "bench/sweeps/scaling.toml", quick_options=QUICK),
    "ratio": Experiment("bench", "bench/sweeps/ratio.toml", quick_options=QUICK),
    "sparse": Experiment("bench", "bench/sweeps/sparse.toml", quick_options=QUICK),
    "gpu": Experiment("bench", "bench/sweeps/gpu.toml", options=("--memory=cuda",), quick_options=QUICK, gpus=1),
    "kernels": Experiment("kernels", time="60", options=("--benchmark_min_time=0.2",),
                          quick_options=("--benchmark_min_time=0.05", "--benchmark_filter=" + KERNELS)),
    "train": Experiment("train", time="120", options=TRAIN, quick_options=("--epochs=2", "--images=10000")),
    "dropin": Experiment("dropin"),
}


def sweep_of(experiment, options):
    """The sweep of a bench experiment; an empty one for others."""
    if experiment.kind == "bench":
        return sweeps.read(options.sweep or _places.of(options.quick and experiment.quick_sweep or experiment.sweep))
    if options.sweep:
        raise Refused("--sweep: only for experiments of mpiq-bench")
    return sweeps.Sweep("", "", {})


def program_options(experiment, options):
    """The options of the program, as jobs need them: jobs run in another folder. Defaults that are given again are left out."""
    words = options.extra
    if experiment.kind == "dropin":
        found = shutil.which(words[0]) if words else None
        if not found:
            raise Refused(f"dropin: no program '{(words or [''])[0]}' here: {command_line.program()} dropin ... -- PROGRAM ARGUMENTS...")
        return [os.path.abspath(found), *words[1:]]
    if experiment.kind == "train":
        data, words = option_of(words, "--data")
        data = data or os.environ.get("MNIST_DIR", "")
        if not os.path.isdir(data):
            raise Refused(f"train: no folder '{data}' of MNIST: scripts/get_mnist DIR, then MNIST_DIR=DIR or -- --data DIR")
        words = [*words, "--data", os.path.abspath(data)]
    given = {word.split("=")[0] for word in words}
    defaults = {word.split("=")[0]: word for word in (*experiment.options, *(experiment.quick_options if options.quick else ()))}
    return [*(word for name, word in defaults.items() if name not in given), *words]


def option_of(words, option):
    """The value of `--option VALUE` or `--option=VALUE`, and the other words."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(option, dest="value", nargs="?", default="", const="")
    found, rest = parser.parse_known_args(words)
    return found.value, rest


def numbers(text, where):
    """'1-64': 1, 2, 4, ..., 64, and the end if it is not a power of two times the beginning. '2,3,8-32': the numbers of all
    parts. They come in order, each once."""
    found = set()
    for word in text.split(","):
        match = re.fullmatch(r"([1-9][0-9]{0,5})(?:-([1-9][0-9]{0,5}))?", word.strip())
        if not match or match[2] and int(match[2]) < int(match[1]):
            raise Refused(f"{where}: '{word}' is neither a positive number nor a range such as 1-64")
        first, last = int(match[1]), int(match[2] or match[1])
        found |= {first << i for i in range((last // first).bit_length())} | {last}
    return sorted(found)


def seconds(text):
    """A time limit as Slurm writes it: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S."""
    match = re.fullmatch(r"(?:(\d{1,3})-)?(\d{1,5})(?::(\d{1,2}))?(?::(\d{1,2}))?", text)
    days, *parts = [int(part or 0) for part in match.groups()] if match else [0, 0, 0, 0]
    if match and match[1] is None and match[4] is None:
        parts = [0, *parts[:2]]  # no hours
    total = days * 86400 + parts[0] * 3600 + parts[1] * 60 + parts[2]
    if total < 60:
        raise Refused(f"--time: '{text}' is no time such as 30, 1:30:00 or 2-12:00, of a minute at least")
    return total


def cell_options(kind, sweep, policy):
    """The options in which cells differ: a tuple for each combination of their values."""
    varied = {"variant": ["plain", "advise", *(["policy"] if policy else [])]} if kind == "dropin" else sweep.varied
    return list(itertools.product(*[[f"--{key}={value}" for value in values] for key, values in varied.items()]))


def cells(shapes, launches, combinations):
    """The cells in the order of the plan: sorted by nodes, and shuffled within, so that drift over time does not look like a
    difference. shapes: pairs of nodes and ranks per node, sorted."""
    out, names = [], set()
    for nodes, group in itertools.groupby(shapes, lambda shape: shape[0]):
        found = []
        for (_, ranks), options in itertools.product(group, combinations):
            if any(re.search(r"[\x00-\x1f\x7f]", option) for option in options):
                raise Refused(f"{' '.join(options)!r}: a control character in an option of cells")
            words = [re.sub(r"[^\w.]+", "_", option.partition("=")[2]) for option in options]
            stem = sweeps.unused("-".join([f"{nodes}x{ranks}", *words])[:80], names)
            found += [Cell(f"{stem}-{i}", nodes, ranks, i, options) for i in range(launches)]
        out += sweeps.shuffled(found, f"{nodes} nodes")
    return out


def ask(*command):
    """What a program prints; "" where it does not start or fails, as on login nodes without the MPI library. Refuses what it
    refuses (exit code 2), so that a misspelt option is found before anything is submitted, and not in the log of a cell."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    if done.returncode == 2:
        raise Refused((done.stderr or done.stdout).strip())
    return done.stdout.strip() if done.returncode == 0 else ""


def check_methods(kind, options, policy, folder):
    """Refuses policies and methods that the programs refuse."""
    if policy and kind != "dropin":
        raise Refused("--policy: only for dropin; of the others the program's options choose")
    if policy:
        ask(os.path.join(folder, "mpiq-run"), "--check-policy", "--policy", policy)
    if kind == "train":
        ask(os.path.join(folder, "mpiq-bench"), "allreduce", "--sizes=64K", f"--methods={option_of(options, '--methods')[0]}", "--dry-run")


def expectation(sweep, combinations, options, bench):
    """The seconds that mpiq-bench expects the longest cell to take, and its words; (0, "") where it does not start, or there is no
    sweep. Refuses options that it refuses."""
    if not sweep.path:
        return 0, ""
    # A launch on several numbers of ranks. There is only one rank here, so that it speaks of one part of the
    # launch.
    parts = [] if option_of(options, "--ranks")[0] else sweep.options.get("ranks", [])
    times, alone = (len(parts), ["--ranks=1"]) if isinstance(parts, list) and parts else (1, [])
    found = []
    for of_cell in combinations[:100]:
        said = ask(bench, "--config", sweep.path, sweep.section, *of_cell, *options, *alone, "--dry-run")
        match = re.search(r"^# (\d+ points .*; about ([\d.]+) (us|ms|s|min)\b.*)", said, re.M)
        if not match:
            return 0, ""
        found.append((times * float(match[2]) * UNIT_S[match[3]], (f"{times} x " if parts else "") + match[1]))
    return max(found)


def site_of(path):
    """The settings of a site, which is a shell file that jobs source: name -> text or list of words. What the file leaves out has its default; path: '' for no file."""
    if path and not os.path.isfile(path):
        raise Refused(f"--site: no file '{path}': copy an example of slurm/sites/")
    env = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    done = subprocess.run(["bash", "-c", READER, "site", path or os.devnull, " ".join([*DEFAULTS, *GONE])], env=env, check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode != 0:
        raise Refused(f"{path}: {done.stderr.strip() or 'does not load'}")
    found = collections.defaultdict(list)
    for entry in done.stdout.split("\0")[:-1]:
        name, value = entry.split("=", 1)
        found[name].append(value)
    for name in found.keys() & GONE:
        raise Refused(f"{path}: {name} is no setting any more ({GONE[name]}): take it out")
    site = {name: found.get(name, value) if isinstance(value, list) else found.get(name, [value])[0] for name, value in DEFAULTS.items()}
    if site["launcher"] not in LAUNCHERS:
        raise Refused(f"{path}: launcher={site['launcher']}: one of {', '.join(LAUNCHERS)}")
    if not re.fullmatch(r"[A-Za-z0-9._-]{0,40}", site["link"]):
        raise Refused(f"{path}: link={site['link']}: up to 40 letters, digits, dots, dashes")
    return site
