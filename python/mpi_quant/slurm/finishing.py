"""What the last job of a run starts (slurm/job.sbatch). `python3 -m mpi_quant.slurm.finishing results RUN` merges, checks and draws the cells of a run, and
prints only what went wrong; what the tools say goes to stderr. `outcome RUN` prints what mpiq status does."""
import collections
import json
import os
import shutil
import statistics
import sys

from mpi_quant import _places
from mpi_quant.commands import command_line, status
from mpi_quant.slurm.run_folder import MAY_CHANGE, Failed, Folder, Refused

ENDS = {"bench": ".h5", "kernels": ".json", "train": ".csv", "dropin": ".seconds"}  # of the file that each cell makes


def tool(name, *words, output=sys.stderr):
    if command_line.run_other(name, *words, stdout=output) != 0:
        raise Failed(f"{command_line.other(name)} refused: see the log")


def dropin_table(cells, files):
    """How long a program ran as it is, with advice and under a policy. The ratio of a variant is its median, divided by the
    median of the program as it is. The table has ranges, because a few launches have no interval."""
    found = collections.defaultdict(list)
    for cell, path in zip(cells, files):
        found[cell.nodes, cell.ranks_per_node, cell.options[0].partition("=")[2]].append(float(path.read_text(encoding="utf-8")))
    yield "| nodes | ranks per node | variant | launches | median, s | least to most, s | plain / this |\n"
    yield "|---|---|---|---|---|---|---|\n"
    for (nodes, ranks, variant), seconds in sorted(found.items(), key=lambda pair: pair[0][:2]):
        median, plain = statistics.median(seconds), found.get((nodes, ranks, "plain"))
        ratio = f"{statistics.median(plain) / median:.3f}" if plain and median else ""
        spread = f"{min(seconds):.3f} to {max(seconds):.3f}"
        yield f"| {nodes} | {ranks} | {variant} | {len(seconds)} | {median:.3f} | {spread} | {ratio} |\n"


def advised(folder, cells):
    """What the runs with --advise suggest: the rules of each shape, and in how many launches of it they were the same."""
    found = collections.defaultdict(list)
    for cell in cells:
        if cell.options[0] == "--variant=advise":
            report = json.loads((folder.path / "cells" / f"{cell.name}.json").read_text(encoding="utf-8"))
            found[cell.nodes, cell.ranks_per_node].append("".join(suggestion(report.get("suggestion", {}))))
    for (nodes, ranks), texts in sorted(found.items()):
        shape = f"{nodes} node{'s' if nodes > 1 else ''} x {ranks} rank{'s' if ranks > 1 else ''}"
        for text, times in collections.Counter(texts).most_common():
            yield f"\n{shape}, advice of {times} of {len(texts)} launches:\n\n{text}"
    if found:
        yield "\nA policy goes into `--policy`. `reports/` has what each method would save, and what was measured of it.\n"


def suggestion(found):
    """The policies of a report's advice, as lines of code."""
    error = f"{found.get('error', 0):g}"
    policies = [(found.get(name), what) for name, what in (("policy", f"each result within a relative error of {error}"), (
        "with_feedback", "for training, and loops that sum the same buffers; single results are coarse")) if found.get(name)]
    width = max((len(policy) for policy, _ in policies), default=0)
    yield from (f"    {policy:<{width}}  # {what}\n" for policy, what in policies)
    if not policies:
        yield f"    none: no method within a relative error of {error} promises to be faster\n"
    if found.get("busy"):
        yield f"\n{found['busy'].strip()}\n"


def make(folder, cells, target):
    """Fills the folder target, which is made anew, with the results of these cells and what each ran on."""
    if not cells:
        raise Failed(f"{folder.path}: no cell has results yet")
    record = folder.record()
    kind, link = record["kind"], record["link"]
    files = [folder.path / "cells" / (cell.name + ENDS[kind]) for cell in cells]
    shutil.rmtree(target, ignore_errors=True)
    copy([folder.path / "plan.tsv", *folder.path.glob("cells/*.txt")], target / "jobs")
    # Without the folders of the user.
    told = {name: value for name, value in record.items() if name not in MAY_CHANGE}
    told["program_options"] = [os.path.basename(word) if os.path.isabs(word) else word for word in record["program_options"]]
    (target / "jobs/record.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
    if kind == "bench":
        tool("merge", "-o", target / f"{link}.h5", *files)
        tool("check", target / f"{link}.h5")
        tool("report", target / f"{link}.h5", "-o", target / "report.html")
    elif kind == "kernels":
        shutil.copy(files[0], target / "kernels.json")
        shutil.copy(files[0].with_suffix(".csv"), target / "quality.csv")
        tool("plot", "roofline", target / "kernels.json", "-o", target)
    elif kind == "train":
        with open(target / "train.md", "w", encoding="utf-8") as table:
            tool("mnist_table", *files, output=table)
        tool("plot", "training", *files, "--name", link, "-o", target)
    else:
        (target / "dropin.md").write_text("".join([*dropin_table(cells, files), *advised(folder, cells)]), encoding="utf-8")
        copy([*folder.path.glob("cells/*.json"), *files], target / "reports")  # of mpiq-run, and the seconds of each run


def copy(paths, target):
    target.mkdir(parents=True)
    for path in paths:
        shutil.copy(path, target)


def results(path):
    folder = Folder(path)
    try:
        cells = folder.cells()
        if left := sum(not folder.is_done(cell.name) for cell in cells):
            raise Failed(f"{left} of {len(cells)} cells not done")
        make(folder, cells, folder.path / "results")
    except (Refused, Failed, OSError, ValueError) as problem:
        print(problem)
        sys.exit(1)


if __name__ == "__main__":
    if _places.tree():
        command_line.start_as("slurm/job.sbatch")
    {"results": results, "outcome": lambda path: status.main([path])}[sys.argv[1]](sys.argv[2])
