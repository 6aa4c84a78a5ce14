"""Makes RUN/results of the cells of a run: merges, checks, draws. slurm/finish.sbatch starts it:
python3 -m mpi_quant.slurm.finishing RUN.

Prints only what went wrong. What the tools say goes to stderr.
"""
import json
import os
import shutil
import statistics
import sys

from mpi_quant import _places
from mpi_quant.commands import command_line
from mpi_quant.slurm.run_folder import MAY_CHANGE, Failed, Folder, Refused

ENDS = {"bench": ".h5", "kernels": ".json", "train": ".csv", "dropin": ".seconds"}  # of the file that each cell makes


def tool(name, *words, output=sys.stderr):
    if command_line.run_other(name, *words, stdout=output) != 0:
        raise Failed(f"{command_line.other(name)} refused: see the log")


def dropin_table(cells, files):
    """How long a program ran as it is, with advice and under a policy. The ratio of a variant is that of the medians, relative to
    the program as it is. The table has ranges, because a few launches have no interval."""
    found = {}
    for cell, path in zip(cells, files):
        with open(path, encoding="utf-8") as file:
            key = (cell.nodes, cell.ranks_per_node, cell.options[0].partition("=")[2])
            found.setdefault(key, []).append(float(file.read()))
    yield "| nodes | ranks per node | variant | launches | median, s | least to most, s | plain / this |\n"
    yield "|---|---|---|---|---|---|---|\n"
    for (nodes, ranks, variant), seconds in sorted(found.items(), key=lambda pair: pair[0][:2]):
        median, plain = statistics.median(seconds), found.get((nodes, ranks, "plain"))
        ratio = f"{statistics.median(plain) / median:.3f}" if plain and median else ""
        spread = f"{min(seconds):.3f} to {max(seconds):.3f}"
        yield f"| {nodes} | {ranks} | {variant} | {len(seconds)} | {median:.3f} | {spread} | {ratio} |\n"


def make(folder, cells, target):
    """Fills the folder target, which is made anew, with the results of these cells and what each ran on."""
    if not cells:
        raise Failed(f"{folder.path}: no cell has results yet")

    def at(name):
        return os.path.join(target, name)

    record = folder.record()
    files = [folder.path / "cells" / (cell.name + ENDS[record["kind"]]) for cell in cells]
    shutil.rmtree(target, ignore_errors=True)
    copy([folder.path / "plan.tsv", *folder.path.glob("cells/*.txt")], at("jobs"))
    # Without the folders of the user.
    told = {name: value for name, value in record.items() if name not in MAY_CHANGE}
    told["program_options"] = [os.path.basename(word) if os.path.isabs(word) else word for word in record["program_options"]]
    with open(at("jobs/record.json"), "w", encoding="utf-8") as file:
        json.dump(told, file, indent=1)
    if record["kind"] == "bench":
        merged = at(record["link"] + ".h5")
        tool("merge", "-o", merged, *files)
        tool("check", merged)
        tool("report", merged, "-o", at("report.html"))
    elif record["kind"] == "kernels":
        shutil.copy(files[0], at("kernels.json"))
        shutil.copy(files[0].with_suffix(".csv"), at("quality.csv"))
        tool("plot", "roofline", at("kernels.json"), "-o", target)
    elif record["kind"] == "train":
        with open(at("train.md"), "w", encoding="utf-8") as table:
            tool("mnist_table", *files, output=table)
        tool("plot", "training", *files, "--name", record["link"], "-o", target)
    else:
        with open(at("dropin.md"), "w", encoding="utf-8") as table:
            table.writelines(dropin_table(cells, files))
        # the reports of mpiq-run, and the seconds of each run
        copy([*folder.path.glob("cells/*.json"), *files], at("reports"))


def copy(paths, target):
    os.makedirs(target)
    for path in paths:
        shutil.copy(path, target)


def main(path):
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
    if _places.tree():  # as finish.sbatch calls slurm/status
        command_line.start_as("slurm/finish.sbatch")
    main(sys.argv[1])
