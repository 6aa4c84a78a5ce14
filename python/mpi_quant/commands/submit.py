"""Plans an experiment on a cluster, says what it costs, and submits it to Slurm: cells as tasks of arrays, then a job that merges,
checks, draws and says what failed, whatever happens.

The same command with the same --out goes on where a run was cut off: cells that are done are left as they are.
Exits 0, 1 (Slurm refused, or with --wait: something failed), 2 (usage, nothing was submitted).
"""
import collections
import itertools
import os
import re
import shlex
import shutil
import sys
import time
import uuid

from mpi_quant import _places
from mpi_quant.commands import command_line
from mpi_quant.slurm import batch, planning, sites
from mpi_quant.slurm.run_folder import Failed, Folder, Refused, parser_of, run, settings_text

# What jobs get to know, beside the sweep; and whether a run is the same depends on most of it.
RECORDED = ("experiment", "kind", "program", "program_options", "policy", "nodes", "ranks_per_node", "cpus_per_task", "gpus_per_node",
            "launches", "link", "launcher", "srun_options", "modules", "python", "bin", "max_restarts")
MOST_REFUSALS = 10  # in a row, of a controller that is asked whether jobs have ended
ASKED = ("partition", "account", "qos", "constraint")


def natural(word):
    """The type of an argument that is 0 or more."""
    return 0 if word == "0" else command_line.count(word)


def parse_arguments(words):
    count, itself = command_line.count, command_line.program()
    parser = parser_of(__doc__, usage=f"{itself} [EXPERIMENT] [--quick] [options] "
                       "[-- options of mpiq-bench..., or a program and its arguments]")
    parser.add_argument("experiment", nargs="?", default="allreduce", metavar="EXPERIMENT",
                        help=", ".join(planning.EXPERIMENTS) + " [%(default)s]")
    parser.add_argument("--quick", action="store_true", help="a first look: few sizes and repetitions, one launch")
    shape = parser.add_argument_group("shapes")
    shape.add_argument("--nodes", metavar="LIST", help="such as 4, 1,2,3 or 1-64 (doubling) [2; of kernels: 1]")
    shape.add_argument("--ranks-per-node", default="1", metavar="LIST", help="likewise [1]")
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
    parser.add_argument("--bin", type=os.path.abspath, default=_places.programs(), metavar="DIR",
                        help="the programs [build/release/bin, or where they are installed]")
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
    request.extra, request.words = extra, words
    return request, parser


def complete(request):
    """Adds to the command line what the experiment, the site, the programs and Slurm say about it, or refuses it."""
    experiment, site = planning.EXPERIMENTS[request.experiment], sites.read(request.site)
    for name, value in site.items():
        setattr(request, name, getattr(request, name, None) or value)
    slurm = batch.config()
    request.kind, request.program = experiment.kind, planning.PROGRAMS[experiment.kind]
    request.sweep = planning.sweep_of(experiment, request)
    request.program_options = planning.program_options(experiment, request)
    if request.gpus_per_node is None:
        request.gpus_per_node = experiment.gpus
    request.launches = request.launches or (1 if request.quick or not request.sweep else request.sweep.launches)
    request.link = "slurm-" + (request.link or re.sub(r"[^\w.-]", "", slurm.get("ClusterName", "cluster"), flags=re.A)[:30])
    combinations = planning.cell_options(request.kind, request.sweep, request.policy)
    most = min(int(slurm.get("MaxArraySize", "1001")) - 1, planning.MOST_CELLS)
    request.cells = plan_cells(request, combinations, most)
    if not os.access(os.path.join(request.bin, request.program), os.X_OK):
        raise Refused(f"--bin: no {request.program} in {request.bin}: build it first")
    planning.check_methods(request.kind, request.program_options, request.policy, request.bin)
    request.expected_s, request.expected = planning.expectation(
        request.sweep, combinations, request.program_options, os.path.join(request.bin, request.program)) if request.sweep else (0, "")
    request.time = request.time or experiment.time or request.expected_s and planning.limit(request.expected_s)
    if not request.time:
        raise Refused("--time: how long may a cell take? The program does not say it here")
    request.seconds = planning.seconds(request.time)
    if not request.folder:
        request.folder = os.path.join(request.out, f"{request.experiment}-{time.strftime('%Y%m%d-%H%M%S')}")
    request.folder = Folder(request.folder)


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


def package_folder(request):
    """What jobs add to PYTHONPATH: see _places.environment. A Python that the site names does not find by itself what pip has installed
    in this one."""
    return "" if _places.by_pip() and request.python == sys.executable else os.fspath(_places.PACKAGE.parent)


def record_of(request):
    """What is written down of a run: see Folder.record."""
    sweep, folder, words = request.sweep, request.folder, request.words
    end = words.index("--") if "--" in words else len(words)  # what follows is for a program
    own = [word for word in words[:end] if word not in ("--dry-run", "--yes", "--wait")]
    if "--out" not in {word.partition("=")[0] for word in own}:
        own += ["--out", str(folder.path)]
    words = [*own, *words[end:]]
    record = {**{name: getattr(request, name) for name in RECORDED},
              "version": planning.ask(os.path.join(request.bin, "mpiq-bench"), "--version"), "root": _places.data(), "package": package_folder(request),
              "section": sweep.section if sweep else "", "sweep": sweep.options if sweep else {}, "env": sweep.env if sweep else {},
              "program_folder": os.getcwd(), "go_on": f"cd {shlex.quote(os.getcwd())} && {shlex.join([*command_line.again(), *words])}",
              "job_name": f"mpiq-{request.experiment}-{uuid.uuid4().hex[:8]}"}
    folder.refuse_another_run(record)
    return {**record, "job_name": folder.record()["job_name"]} if folder.exists() else record


def make_folder(request, record):
    folder = request.folder
    folder.make(record, request.cells)
    for name, path in (("site.sh", request.site), ("sweep.toml", request.sweep and request.sweep.path)):
        if path:
            shutil.copyfile(path, folder.path / name)
    # No job of this run is left. What earlier ones left behind: locks of cells that were killed, and what became of the run.
    for path in [*folder.path.glob("cells/*.lock"), *folder.path.glob("outcome.txt")]:
        path.unlink()


def print_plan(request, todo):
    cells = [request.cells[i] for i in todo]
    of = f" of {len(request.cells)}" if len(cells) < len(request.cells) else ""
    sweep = f" ({os.path.relpath(request.sweep.path, _places.data())})" if request.sweep else ""
    print(f"{request.experiment}{sweep}\ncells: {len(cells)}{of}, each at most {request.seconds / 60:g} minutes, {request.at_once} at a time"
          f"{' for each number of nodes' if request.at_once > 1 else ''}, in shuffled order")
    for (nodes, ranks), number in sorted(collections.Counter(cell[1:3] for cell in cells).items()):
        print(f"  nodes: {nodes}, ranks per node: {ranks}, cells: {number}")
    if request.expected:
        print(f"mpiq-bench expects of a cell: {request.expected}")
    print("then one task that merges, checks and draws, 30 minutes at most")
    print(f"cost: at most {sum(cell.nodes for cell in cells) * request.seconds / 3600:.2f} node-hours")
    print(f"folder: {request.folder.path}", flush=True)


def jobs_of(request, name, todo):
    """The tasks of each array and its sbatch command; last, without tasks, the job that comes after all of them."""
    asked = [f"--{option}={value}" for option in ASKED[1:] if (value := getattr(request, option))]

    def command(script, partition, log, *words):
        where = [f"--partition={partition}"] if partition else []
        return ["sbatch", "--parsable", f"--job-name={name}", f"--output={request.folder.path}/log/{log}", *where, *asked, *words,
                _places.of(f"slurm/{script}"), str(request.folder.path)]

    jobs = []
    for nodes, group in itertools.groupby(todo, lambda i: request.cells[i].nodes):
        tasks = list(group)
        words = [f"--array={','.join(map(str, tasks))}%{request.at_once}", f"--nodes={nodes}", f"--time={request.time}",
                 f"--ntasks-per-node={max(request.cells[i].ranks_per_node for i in tasks)}",
                 f"--cpus-per-task={request.cpus_per_task}", *request.sbatch_options]
        words += [f"--gpus-per-node={request.gpus_per_node}"] if request.gpus_per_node else []
        jobs.append((tasks, command("cell.sbatch", request.partition, "cells-%A_%a.log", *words)))
    return [*jobs, ([], command("finish.sbatch", request.small_partition or request.partition, "finish-%j.log"))]


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
            lines = [f"{request.cells[i].name}\t{numbers[-1]}_{i}\n" for i in tasks] or [f"finish\t{numbers[-1]}\n"]
            request.folder.write("jobs.tsv", "".join(lines), "a")
    except (Failed, OSError, KeyboardInterrupt):
        batch.lines_if_any(*batch.cancel_command(name))
        raise


def agreed(request):
    """Whether the user agrees to submit it."""
    if request.yes or not sys.stdin.isatty():
        return request.yes
    try:
        return input("Submit? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def wait_for_end(name):
    """Waits for the end of all jobs of this name, also while the controller does not answer for a while. It asks seldom, because
    all users share the controller."""
    pause, left, refused = 0.5, True, 0
    while left:
        time.sleep(pause)
        pause = min(1.2 * pause, 30)
        try:
            left, refused = batch.queue(name), 0
        except Failed:
            refused += 1
            if refused == MOST_REFUSALS:
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
    print_plan(request, todo)
    if request.dry_run:
        print("\n".join(shlex.join(command) for _, command in jobs) + "\neach after those before it; settings for all:")
        print(settings_text(record), end="")
        return 0
    if not agreed(request):
        print(f"{command_line.program()}: nothing was submitted: --yes, or ask me at a terminal", file=sys.stderr)
        return 2
    make_folder(request, record)
    submit(request, record["job_name"], jobs)
    print(f"submitted: jobs named {record['job_name']}. Progress: {command_line.other('status')} {shlex.quote(str(folder.path))}", flush=True)
    if not request.wait:
        return 0
    wait_for_end(record["job_name"])
    return command_line.run_other("status", folder.path)


def main(words):
    request, parser = parse_arguments(words)
    run(parser, plan_and_submit, request)
