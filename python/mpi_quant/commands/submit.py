"""Plans an experiment on a cluster, says what it costs, and submits it to Slurm: cells as tasks of arrays, then a job that merges,
checks, draws and says what failed, whatever happens.

The same command with the same --out goes on where a run was cut off: cells that are done are left as they are.
Exits 0, 1 (Slurm refused, or with --wait: something failed), 2 (usage, nothing was submitted).
"""
import collections
import itertools
import math
import os
import re
import shlex
import sys
import time
import uuid

from mpi_quant import _places
from mpi_quant.commands import command_line
from mpi_quant.slurm import batch, partitions, planning
from mpi_quant.slurm.run_folder import Failed, Folder, Refused, parser_of, run, settings_text

# What jobs get to know, beside the sweep; and whether a run is the same depends on most of it.
RECORDED = ("experiment", "kind", "program", "program_options", "policy", "nodes", "ranks_per_node", "cpus_per_task", "gpus_per_node",
            "launches", "link", "launcher", "srun_options", "modules", "python", "bin", "max_restarts")
MOST_REFUSALS = 10  # in a row, of a controller that is asked whether jobs have ended
ALONE = ("--exclusive", "--mem=0", "--threads-per-core=1", "--requeue", "--open-mode=append")  # for cells
LAST_MINUTES = 30  # of the job after the cells
ASKED = ("partition", "account", "qos", "constraint")


def natural(word):
    """The type of an argument that is 0 or more."""
    return 0 if word == "0" else command_line.count(word)


def parse_arguments(words):
    count, itself = command_line.count, command_line.program()
    parser = parser_of(__doc__, usage=f"{itself} [EXPERIMENT] [--quick] [options] [-- options of mpiq-bench, or a program]")
    parser.add_argument("experiment", nargs="?", default="allreduce", metavar="EXPERIMENT",
                        help=", ".join(planning.EXPERIMENTS) + " [%(default)s]")
    parser.add_argument("--quick", action="store_true", help="a first look: few sizes and repetitions, one launch")
    shape = parser.add_argument_group("shapes")
    shape.add_argument("--nodes", metavar="LIST", help="such as 4, 1,2,3 or 1-64 (doubling) [2; of kernels: 1]")
    shape.add_argument("--ranks-per-node", default="1", metavar="LIST", help="such as 4 or 1,2,3 [1]")
    shape.add_argument("--cpus-per-task", type=count, default=1, metavar="N", help="cores of each rank [1]")
    shape.add_argument("--gpus", dest="gpus_per_node", type=natural, metavar="N", help="of each node [0; of gpu: 1]")
    shape.add_argument("--launches", type=count, metavar="N", help="of each shape [the sweep's; with --quick 1]")
    shape.add_argument("--sweep", metavar="FILE.toml", help="in place of the experiment's sweep file")
    shape.add_argument("--policy", default="", metavar="RULES", help="dropin: what mpiq-run is to do")
    asked = parser.add_argument_group("what Slurm is asked")
    asked.add_argument("--time", metavar="T", help="of a cell, as Slurm writes it: 30, 1:30:00 [half as much again as mpiq-bench expects]")
    for name in ASKED:
        asked.add_argument("--" + name, metavar="NAME", help="[the site's]")
    asked.add_argument("--site", metavar="FILE", default=os.environ.get("MPIQ_SITE", ""), help="settings of the cluster [MPIQ_SITE]")
    asked.add_argument("--at-once", type=count, default=1, metavar="N", help="cells that may run at the same time: 1, or so many of each number of nodes [1]")
    asked.add_argument("--max-restarts", type=natural, default=10, metavar="N", help="lives of a cell after its first [10]")
    parser.add_argument("--out", dest="folder", metavar="DIR", help="folder of the run, on a file system that all nodes see [EXPERIMENT-TIME]")
    parser.add_argument("--bin", type=os.path.abspath, default=_places.programs(), metavar="DIR", help="the programs [build/release/bin, or where they are installed]")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, the commands and the settings, submit nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--wait", action="store_true", help="until all jobs have ended; then print what became of them")
    own, extra = (words[:words.index("--")], words[words.index("--") + 1:]) if "--" in words else (words, [])
    request, unknown = parser.parse_known_args(own)
    if unknown:
        option = unknown[0].partition("=")[0]
        parser.error(f"{option} is no option of {itself}; options of mpiq-bench go behind --, such as: {itself} --quick -- {option} ...")
    if request.experiment not in planning.EXPERIMENTS:
        parser.error(f"no experiment '{request.experiment}'; there are: {', '.join(planning.EXPERIMENTS)}")
    again = [word for word in own if word not in ("--dry-run", "--yes", "--wait")]  # who goes on is asked, and does not wait
    request.extra, request.words = extra, [*again, *(["--", *extra] if extra else [])]
    return request, parser


def complete(request):
    """Adds to the command line what the experiment, the site, the programs and Slurm say about it, or refuses it."""
    experiment, site = planning.EXPERIMENTS[request.experiment], planning.site_of(request.site)
    for name, value in site.items():
        setattr(request, name, getattr(request, name, None) or value)
    slurm = batch.config()
    request.kind = experiment.kind
    request.program = "mpiq-run" if request.kind == "dropin" else "mpiq-" + request.kind
    request.sweep = planning.sweep_of(experiment, request)
    request.program_options = planning.program_options(experiment, request)
    if request.gpus_per_node is None:
        request.gpus_per_node = experiment.gpus
    request.launches = request.launches or (1 if request.quick else request.sweep.launches)
    request.link = "slurm-" + (request.link or re.sub(r"[^\w.-]", "", slurm.get("ClusterName", "cluster"), flags=re.A)[:30])
    combinations = planning.cell_options(request.kind, request.sweep, request.policy)
    most = min(int(slurm.get("MaxArraySize", "1001")) - 1, planning.MOST_CELLS)
    request.cells = plan_cells(request, combinations, most)
    program = os.path.join(request.bin, request.program)
    if not os.access(program, os.X_OK):
        raise Refused(f"--bin: no {request.program} in {request.bin}: build it first")
    planning.check_methods(request.kind, request.program_options, request.policy, request.bin)
    expected_s, request.expected = planning.expectation(request.sweep, combinations, request.program_options, program)
    # Half as much again, the margin of mpiq-bench, which is a minute, and one to start, in steps of five
    # minutes.
    request.time = request.time or experiment.time or expected_s and str(math.ceil((1.5 * expected_s + 120) / 300) * 5)
    if not request.time:
        raise Refused("--time: how long may a cell take? The program does not say it here")
    request.seconds = planning.seconds(request.time)
    request.folder = Folder(request.folder or os.path.join(request.out, f"{request.experiment}-{time.strftime('%Y%m%d-%H%M%S')}"))


def plan_cells(request, combinations, most):
    request.nodes = request.nodes or ("1" if request.kind == "kernels" else "2")
    nodes, ranks = planning.numbers(request.nodes, "--nodes"), planning.numbers(request.ranks_per_node, "--ranks-per-node")
    if request.kind == "kernels" and (nodes, ranks, request.launches) != ([1], [1], 1):
        raise Refused("kernels: one launch of one rank on one node; other processors by --constraint and another --out")
    least = 2 if request.kind == "bench" else 1  # one rank alone reduces nothing
    shapes = [(n, m) for n, m in itertools.product(nodes, ranks) if n * m >= least]
    if not shapes:
        raise Refused(f"no shape has {least} ranks or more: --nodes, --ranks-per-node")
    if (number := len(shapes) * request.launches * len(combinations)) > most:
        raise Refused(f"{number} cells, more than {most}, which an array may have here (MaxArraySize)")
    return planning.cells(shapes, request.launches, combinations)


def record_of(request):
    """What is written down of a run: see Folder.record."""
    sweep, folder = request.sweep, request.folder
    # What jobs add to PYTHONPATH: see _places.environment. A Python that the site names does not find what
    # pip has installed in this one.
    package = "" if _places.by_pip() and request.python == sys.executable else os.fspath(_places.PACKAGE.parent)
    record = {**{name: getattr(request, name) for name in RECORDED},
              "version": planning.ask(os.path.join(request.bin, "mpiq-bench"), "--version"), "root": _places.data(), "package": package,
              "section": sweep.section, "sweep": sweep.options, "env": sweep.env, "program_folder": os.getcwd(),
              "go_on": f"cd {shlex.quote(os.getcwd())} && {shlex.join([*command_line.again(), '--out', str(folder.path), *request.words])}",
              "job_name": f"mpiq-{request.experiment}-{uuid.uuid4().hex[:8]}"}
    folder.refuse_another_run(record)
    return {**record, "job_name": folder.record()["job_name"]} if folder.exists() else record


def print_plan(request, todo):
    cells = [request.cells[i] for i in todo]
    of = f" of {len(request.cells)}" if len(cells) < len(request.cells) else ""
    sweep = f" ({os.path.relpath(request.sweep.path, _places.data())})" if request.sweep.path else ""
    print(f"{request.experiment}{sweep}\ncells: {len(cells)}{of}, each at most {request.seconds / 60:g} minutes, {request.at_once} at a time"
          f"{' for each number of nodes' if request.at_once > 1 else ''}, in shuffled order")
    for (nodes, ranks), number in sorted(collections.Counter(cell[1:3] for cell in cells).items()):
        print(f"  nodes: {nodes}, ranks per node: {ranks}, cells: {number}")
    if request.expected:
        print(f"mpiq-bench expects of a cell: {request.expected}")
    print(f"then one task that merges, checks and draws, {LAST_MINUTES} minutes at most\n"
          f"cost: at most {sum(cell.nodes for cell in cells) * request.seconds / 3600:.2f} node-hours\nfolder: {request.folder.path}", flush=True)


def wishes_of(request, todo):
    """(partitions, what jobs ask them for): of the cells, by number of nodes, and of the job after them."""
    asked = {name: getattr(request, name) for name in ("constraint", "account", "qos")}
    for nodes, group in itertools.groupby(todo, lambda i: request.cells[i].nodes):
        cores = request.cpus_per_task * max(request.cells[i].ranks_per_node for i in group)
        yield request.partition, partitions.Wish(f"cells on {nodes} nodes", nodes, cores, request.gpus_per_node, request.seconds, **asked)
    yield request.small_partition or request.partition, partitions.Wish("the job after the cells", 1, 1, 0, LAST_MINUTES * 60, **asked)


def print_partitions(request, todo):
    """What Slurm says of the partitions that jobs go to, and what they ask for and do not get."""
    wishes = list(wishes_of(request, todo))
    for names in dict.fromkeys(names for names, _ in wishes):
        found = partitions.read(names)
        for partition in found:
            print(*partitions.words_of(partition), sep="\n")
            told = dict.fromkeys(text for names_of_wish, wish in wishes if names_of_wish == names for text in partitions.warnings(partition, wish))
            print(*(f"warning: partition {partition.name}: {text}" for text in told), sep="\n", end="\n" if told else "")
        if not found:
            print(f"Slurm says nothing of {f'partition {names}' if names else 'a default partition'}")


def jobs_of(request, name, todo):
    """The tasks of each array and its sbatch command; last, without tasks, the job that comes after all of them."""
    asked = [f"--{option}={value}" for option in ASKED[1:] if (value := getattr(request, option))]

    def command(partition, log, *words):
        where = [f"--partition={partition}"] if partition else []
        return ["sbatch", "--parsable", f"--job-name={name}", f"--output={request.folder.path}/log/{log}", *where, *asked, *words,
                _places.of("slurm/job.sbatch"), str(request.folder.path)]

    jobs = []
    for nodes, group in itertools.groupby(todo, lambda i: request.cells[i].nodes):
        tasks = list(group)
        words = [*ALONE, f"--array={','.join(map(str, tasks))}%{request.at_once}", f"--nodes={nodes}", f"--time={request.time}",
                 f"--ntasks-per-node={max(request.cells[i].ranks_per_node for i in tasks)}", f"--cpus-per-task={request.cpus_per_task}",
                 *request.sbatch_options, *([f"--gpus-per-node={request.gpus_per_node}"] if request.gpus_per_node else [])]
        jobs.append((tasks, command(request.partition, "cells-%A_%a.log", *words)))
    last = command(request.small_partition or request.partition, "finish-%j.log", "--nodes=1", "--ntasks=1", f"--time={LAST_MINUTES}")
    return [*jobs, ([], last)]


def check(request, jobs):
    """Lets Slurm say what it would refuse, or never start."""
    for tasks, command in jobs:
        try:
            batch.ask(command[0], "--test-only", *command[1:])
        except Failed as problem:
            what = f"cells on {request.cells[tasks[0]].nodes} nodes" if tasks else "the job after the cells"
            raise Refused(f"Slurm refuses {what}: {problem}") from problem


def submit(request, name, jobs):
    """Submits the jobs. If one is refused, those before it are cancelled."""
    numbers = []
    try:
        for tasks, command in jobs:
            # One array starts after the other if no two cells may share the network.
            after = numbers[-1:] if tasks and request.at_once == 1 else [] if tasks else numbers
            dependency = [f"--dependency=afterany:{':'.join(after)}"] if after else []
            numbers.append(batch.submit([*command[:2], *dependency, *command[2:]]))
            with open(request.folder.path / "jobs.tsv", "a", encoding="utf-8") as file:
                file.writelines([f"{request.cells[i].name}\t{numbers[-1]}_{i}\n" for i in tasks] or [f"finish\t{numbers[-1]}\n"])
    except (Failed, OSError, KeyboardInterrupt):
        batch.ask_if_any(*batch.cancel_command(name))
        raise


def agreed(request):
    """Whether the user agrees to submit it."""
    try:
        return request.yes or sys.stdin.isatty() and input("Submit? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def wait_for_end(name):
    """Waits for the end of all jobs of this name, also while the controller does not answer for a while. Seldom asks it: all users share it."""
    pause, left, refused = 0.5, True, 0
    while left:
        time.sleep(pause)
        pause = min(1.2 * pause, 30)
        try:
            left, refused = batch.queue(name), 0
        except Failed:
            if (refused := refused + 1) == MOST_REFUSALS:
                raise


def plan_and_submit(request):
    complete(request)
    folder, record = request.folder, record_of(request)
    if folder.exists() and (left := batch.queue(record["job_name"])):
        raise Refused(f"--out: jobs {' '.join(left)} of {folder.path} have not ended: {command_line.other('status')}")
    todo = [i for i, cell in enumerate(request.cells) if not folder.is_done(cell.name)]
    if not todo and folder.is_done("finish"):
        print(f"{folder.path} is complete")
        return 0
    jobs = jobs_of(request, record["job_name"], todo)
    check(request, jobs)
    if request.dry_run:  # first what is long: people read the end
        print("settings for all jobs:", settings_text(record), "jobs, each after those before it:", *(shlex.join(command) for _, command in jobs), "", sep="\n")
    print_plan(request, todo)
    print_partitions(request, todo)
    if request.dry_run:
        return 0
    if not agreed(request):
        print(f"{command_line.program()}: nothing was submitted: --yes, or ask me at a terminal", file=sys.stderr)
        return 2
    folder.make(record, request.cells, {"site.sh": request.site, "sweep.toml": request.sweep.path})
    submit(request, record["job_name"], jobs)
    print(f"submitted: jobs named {record['job_name']}. Progress: {command_line.other('status')} {shlex.quote(str(folder.path))}", flush=True)
    if not request.wait:
        return 0
    wait_for_end(record["job_name"])
    return command_line.run_other("status", folder.path)


def main(words):
    request, parser = parse_arguments(words)
    run(parser, plan_and_submit, request)
