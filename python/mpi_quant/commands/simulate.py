"""Simulates collectives among many ranks with mpiq-simulate, or compares a simulation with measured results.

With --sparse DIR: writes DIR/sparse-<link>-<ranks>.h5, of sparse vectors with many degrees of Kylix. With --degrees FILE.h5...: prints which
degrees are fastest in such files, as a table in Markdown. With --model FILE.h5...: prints how far the library's model of time is off simulated files, as a table in Markdown.
With --out DIR: writes DIR/simulated-<link>.h5, of another collective than allreduce DIR/simulated-<collective>-<link>.h5, of calls of training steps DIR/training-<link>.h5, for each link of
mpiq-simulate's names that is asked for; a file that is there goes on where it ended. With --compare FILE.h5...: simulates the points of measured files of one network and prints how far
off the simulation is, as a table in Markdown. `mpi` of two ranks is compared with the simulated raw/recursive_doubling. Methods that the rates
do not have are left out. Builds nothing. Exits 0, 1 (a simulation failed) or 2 (usage)."""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

from mpi_quant import _places
from mpi_quant.commands import command_line
from mpi_quant.figures.register import good
from mpi_quant.results import reader, training_step
from mpi_quant.results.schema import ALLREDUCE, PARTED, SIMULATED

LINKS = ("lab-1gbit", "lab-10gbit", "rdma-100gbit")
RANKS = "2,4,16,64,256,1024"
SIZES = "64K,1M,16M"
SPARSE_RANKS = "64,256"
SPARSE_WORDS = ("--sizes", "4M", "--density", "0.0001,0.001,0.01", "--distribution", "uniform,powerlaw:1.1")
NEAR = 0.15  # of a measured time
MOST_LAYERS = 4  # of the degrees that are tried, beside degrees of 2 alone
# What is the fastest dense method depends on the ranks and the size: mpi is the fastest of MPI's algorithms,
# and plans of the library may be faster still.
BEST_DENSE = "mpi,raw/direct,raw/grid"
METHODS = f"{BEST_DENSE},bf16,onebit,topk"
# The calls of training steps, for the plot `scale`.
TRAINING_LINKS, TRAINING_RANKS, TRAINING_METHODS = "ethernet-10gbit,rdma-100gbit,rdma-400gbit", "16,64,256,1024", ("mpi", "bf16", "int8", "onebit")
METHODS_OF_PARTED = "mpi,bf16,onebit,topk"  # of all collectives but an allreduce, whose plans no method names
# What stands for mpi in --compare. At two ranks every dense algorithm sends the same bytes, and the networks
# of the presets were fitted to this one.
PAIR_DENSE, DENSE = "raw/recursive_doubling", "mpi"


def parse_arguments(words):
    parser = argparse.ArgumentParser(prog=command_line.program(),
                                     usage="%(prog)s (--out|--sparse) DIR [options]\n       %(prog)s (--degrees|--model|--compare) FILE.h5... [options]", description=__doc__.split("\n\n", maxsplit=1)[0],
                                     epilog=__doc__.split("\n\n", maxsplit=1)[1])
    command_line.add_version(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", metavar="DIR", help="where results go")
    what.add_argument("--sparse", metavar="DIR", help="where results of sparse vectors go")
    what.add_argument("--degrees", nargs="+", metavar="FILE.h5", type=command_line.existing_file, help="results of --sparse")
    what.add_argument("--model", nargs="+", metavar="FILE.h5", type=command_line.existing_file, help="simulated results")
    what.add_argument("--compare", nargs="+", metavar="FILE.h5", type=command_line.existing_file, help="measured results")
    parser.add_argument("--training", metavar="NETS", type=nets, help=f"with --out: the sizes of the calls of a training step of some of {', '.join(training_step.NETS)}, for the plot "
                        f"scale, with the methods {', '.join(TRAINING_METHODS)}, as far as the rates have them, on {TRAINING_LINKS} with {TRAINING_RANKS} ranks")
    parser.add_argument("--links", metavar="NAME,...", help=f"networks [{','.join(LINKS)}]; with --compare the first")
    parser.add_argument("--ranks", metavar="N,...", help=f"with --out [{RANKS}]; with --sparse [{SPARSE_RANKS}], powers of 2")
    parser.add_argument("--fastest", action="store_true", help="with --compare: the fastest repetitions, for a machine that was shared [medians]")
    parser.add_argument("--calls", type=int, default=1, metavar="N",
                        help="with --compare: simulate N calls one after the other, of which the last one counts [1]")
    parser.add_argument("--list-costs", metavar="COSTS", help="with --sparse: as in mpiq-simulate [its default]")
    parser.add_argument("--sizes", metavar="BYTES,...", help=f"with --out [{SIZES}]")
    parser.add_argument("--collective", choices=(ALLREDUCE, *PARTED), default=ALLREDUCE,
                        help="with --out [%(default)s]; with --compare the files say which")
    parser.add_argument("--methods", metavar="METHOD,...", help=f"with --out [{METHODS}; of all collectives but allreduce {METHODS_OF_PARTED}]")
    parser.add_argument("--rates", type=command_line.existing_file, metavar="FILE",
                        default=_places.of("results/reference/kernels.json"),
                        help="rates of the codecs, of mpiq-kernels [results/reference/kernels.json]")
    parser.add_argument("--bin", default=_places.programs(), metavar="DIR",
                        help="where mpiq-simulate is [build/release/bin, or where it is installed]")
    options = parser.parse_args(words)
    if options.training and (not options.out or options.sizes or options.collective != ALLREDUCE):
        parser.error("--training: with --out, and without --sizes and --collective")
    if options.training:
        options.sizes = ",".join(map(str, training_step.sizes(options.training)))
        options.ranks = options.ranks or TRAINING_RANKS
        try:
            known = codecs_of(options.rates)
        except (OSError, ValueError, KeyError, TypeError) as error:
            parser.error(f"--rates {options.rates}: not what mpiq-kernels writes ({error})")
        options.methods = options.methods or ",".join(m for m in TRAINING_METHODS if m in ("mpi", *known))
    options.links = options.links or (TRAINING_LINKS if options.training else ",".join(LINKS))
    options.sizes = options.sizes or SIZES
    return options


def nets(text):
    """The names of nets in a list with commas."""
    names = text.split(",")
    if unknown := sorted(set(names) - set(training_step.NETS)):
        raise argparse.ArgumentTypeError(f"no net {', '.join(unknown)}: {', '.join(training_step.NETS)}")
    return names


def simulate(options, link, ranks, methods, *words, **output):
    """Runs mpiq-simulate. Paths are relative, because files of results name them."""
    return subprocess.run([os.path.join(os.path.relpath(options.bin), "mpiq-simulate"), "--ranks", ranks, "--methods", methods,
                           "--link", link, "--rates", os.path.relpath(options.rates), *words], check=True, **output)


def degrees_of(ranks):
    """Degrees that are powers of 2 and do not grow, as texts: all with few layers, and degrees of 2 alone."""
    def parts(bits, most, layers):
        if bits == 0:
            yield []
        for first in range(min(bits, most), 0, -1) if layers else ():
            for rest in parts(bits - first, first, layers - 1):
                yield [first, *rest]
    bits = ranks.bit_length() - 1
    if ranks != 1 << bits or ranks < 2:
        sys.exit(f"{command_line.program()}: --sparse: {ranks} ranks are not a power of 2")
    found = [*parts(bits, bits, MOST_LAYERS), *([[1] * bits] if bits > MOST_LAYERS else [])]
    return ["x".join(str(1 << b) for b in layers) for layers in found]


def simulate_sparse(options):
    os.makedirs(options.sparse, exist_ok=True)
    costs = ("--list-costs", options.list_costs) if options.list_costs else ()
    for link in options.links.split(","):
        for ranks in (options.ranks or SPARSE_RANKS).split(","):
            methods = [BEST_DENSE, "union", "fused", "kylix", *(f"kylix/{d}" for d in degrees_of(int(ranks)))]
            simulate(options, link, ranks, ",".join(methods), "--sparse", *SPARSE_WORDS, *costs,
                     "-O", os.path.join(options.sparse, f"sparse-{link.replace('/', '_')}-{ranks}.h5"))


def print_degrees(options):
    """The table: a line for each link, number of ranks, distribution and density."""
    print("| link | ranks | lists | density | dense | union | fused | kylix, direct | fastest degrees | the library's choice |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for path in options.degrees:
        points = reader.read(path).points
        groups = collections.defaultdict(dict)
        for row in points[points["status"] == SIMULATED]:
            lists = dict(word.split("=") for word in str(row["comp_params"]).split(",") if "=" in word)
            groups[str(row["link"]).removeprefix("sim:"), int(row["ranks"]), lists["distribution"], float(lists["density"])][str(row["method"])] = \
                1e3 * float(row["t_median_s"])
        for (link, ranks, distribution, density), ms in sorted(groups.items()):
            layers = {method[len("kylix(degrees="):-1]: time for method, time in ms.items() if method.startswith("kylix(")}
            best = min(layers, key=layers.get)
            dense = min(time for method, time in ms.items() if method == "mpi" or method.startswith("raw/"))
            print(f"| {link} | {ranks} | {distribution} | {density:g} | {dense:.3g} | {ms['union']:.3g} | {ms['fused']:.3g} | "
                  f"{layers[str(ranks)]:.3g} | {best}: {layers[best]:.3g} | {ms['kylix']:.3g} ({ms['kylix'] / layers[best]:.2f}) |")


def codecs_of(path):
    """The codecs that a file of mpiq-kernels has."""
    with open(path, encoding="utf-8") as file:
        return {row["name"].split("/")[0] for row in json.load(file)["benchmarks"]}


def measured(paths, codecs, column):
    """The collective of the files, and (ranks, bytes, method) -> seconds of all good rows that can be simulated; several files of a
    point: the last."""
    times, collectives = {}, set()
    for path in paths:
        points = reader.read(path).points
        for row in points[good(points) & (points["dtype"] == "f32") & (points["nodes"] == points["ranks"])]:
            if str(row["method"]) == "mpi" or re.match(r"[^/(]+", str(row["method"]))[0] in codecs:
                times[int(row["ranks"]), int(row["bytes"]), str(row["method"])] = float(row[column])
                collectives.add(str(row["collective"]))
    if not times:
        sys.exit(f"{command_line.program()}: {', '.join(paths)}: no good rows with one rank a host")
    if len(collectives) > 1:
        sys.exit(f"{command_line.program()}: rows of {' and '.join(sorted(collectives))}: a table is of one collective")
    return collectives.pop(), times


def compare(options):
    """The table: a line for each number of ranks and method, a column for each size."""
    collective, times = measured(options.compare, codecs_of(options.rates), "t_min_s" if options.fastest else "t_median_s")
    def stand_in(ranks, method):
        return method if method != "mpi" else PAIR_DENSE if ranks == 2 and collective == ALLREDUCE else DENSE
    sizes = sorted({size for _, size, _ in times})
    methods = sorted({stand_in(ranks, method) for ranks, _, method in times})
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "simulated.h5")
        simulate(options, options.links.split(",")[0], ",".join(str(r) for r in sorted({r for r, *_ in times})),
                 ",".join(methods), "--collective", collective, "--sizes", ",".join(map(str, sizes)), "--calls", str(options.calls), "-O", path,
                 stdout=subprocess.DEVNULL)
        points = reader.read(path).points
    simulated = {(int(r["ranks"]), int(r["bytes"]), str(r["method"])): float(r["t_median_s"]) for r in points}
    lines, near = collections.defaultdict(dict), 0
    for (ranks, size, method), seconds in times.items():
        other = simulated[ranks, size, stand_in(ranks, method)]
        near += abs(other / seconds - 1) <= NEAR
        lines[ranks, method][size] = f"{1e3 * other:.3g} / {1e3 * seconds:.3g} ({100 * (other / seconds - 1):+.0f} %)"
    print("| ranks | method | " + " | ".join(reader.bytes_label(size) for size in sizes) + " |")
    print("|---|---|" + "---|" * len(sizes))
    for (ranks, method), cells in sorted(lines.items()):
        print(f"| {ranks} | {method} | " + " | ".join(cells.get(size, "") for size in sizes) + " |")
    print(f"\n{near} of {len(times)} are within {100 * NEAR:.0f} %.")


def modelled(options, points):
    """(ranks, bytes, method) -> (seconds, plan) of simulated points of one link, by the model."""
    ranks, sizes = [",".join(map(str, sorted(set(points[column])))) for column in ("ranks", "bytes")]
    link = str(points["link"][0]).removeprefix("sim:")
    methods = ",".join(sorted(set(map(str, points["method"]))))
    done = simulate(options, link, ranks, methods, "--collective", str(points["collective"][0]), "--sizes", sizes, "--model",
                    stdout=subprocess.PIPE, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {(line["ranks"], line["bytes"], line["method"]): (line["seconds"], line["plan"]) for line in lines}


def ratios_of(options):
    """(link, codec, plan) -> model over simulation, of all points of the files."""
    ratios = collections.defaultdict(list)
    for path in options.model:
        points = reader.read(path).points
        points = points[points["status"] == SIMULATED]
        if len(set(points["collective"])) != 1 or len(set(points["link"])) != 1 or len(set(points["feedback"][points["method"] != DENSE])) > 1:
            sys.exit(f"{command_line.program()}: {path}: simulated rows of one collective and of one link are expected, all with feedback or all without")
        found = modelled(options, points)
        for row in points:
            method = str(row["method"])
            seconds, plan = found[int(row["ranks"]), int(row["bytes"]), method]
            ratios[str(row["link"]), re.match(r"[^/(]+", method)[0], plan].append((seconds / float(row["t_median_s"]), row))
    return ratios


def print_models(options):
    """The table: a line for each link, codec and plan; and one of all points."""
    def line(words, found):
        off = sorted((max(r, 1 / r), r, f"{row['ranks']} ranks, {reader.bytes_label(row['bytes'])}") for r, row in found)
        median = sorted(r for r, _ in found)[len(found) // 2]
        print("| " + " | ".join((*words, str(len(found)), f"{median:.2f}", f"{off[len(off) // 2][0]:.2f}", f"{off[-1][1]:.2f} ({off[-1][2]})")) + " |")
    print("| link | codec | plan | points | median of model / simulation | median factor off | farthest off |")
    print("|---|---|---|---|---|---|---|")
    ratios = ratios_of(options)
    for key in sorted(ratios):
        line(key, ratios[key])
    line(("all", "", ""), [pair for found in ratios.values() for pair in found])


def main(words):
    options = parse_arguments(words)
    try:
        if options.model:
            print_models(options)
            return
        if options.compare:
            compare(options)
            return
        if options.sparse:
            simulate_sparse(options)
            return
        if options.degrees:
            print_degrees(options)
            return
        os.makedirs(options.out, exist_ok=True)
        is_parted = options.collective in PARTED
        for link in options.links.split(","):
            name = f"{'training' if options.training else 'simulated'}-{options.collective + '-' if is_parted else ''}{link.replace('/', '_')}.h5"
            simulate(options, link, options.ranks or RANKS, options.methods or (METHODS_OF_PARTED if is_parted else METHODS),
                     "--collective", options.collective, "--sizes", options.sizes, "-O", os.path.join(options.out, name))
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
    except (OSError, reader.ResultsError) as error:
        sys.exit(f"{command_line.program()}: {error}")
