"""Copies what a run of mpiq submit has made: the result file or table, the page, and what each cell ran on.

Without --partial a run that has not come to its end is refused.
Exits 0, 1 (not complete, or it could not be copied), 2 (usage).
"""
import os
import pathlib
import shutil
import tempfile
import time

from mpi_quant import _places
from mpi_quant.commands import command_line
from mpi_quant.slurm import finishing
from mpi_quant.slurm.run_folder import Failed, Folder, parser_of, run


def collect(options, work):
    folder = Folder(options.run)
    record, cells, done = folder.record(), folder.cells(), folder.is_done("finish")
    made = (folder.path if done else pathlib.Path(work)) / "results"
    if not done and options.partial:
        there = [cell for cell in cells if folder.is_done(cell.name) or (folder.path / "cells" / (cell.name + ".h5")).exists()]
        print(f"{len(there)} of {len(cells)} cells have results")
        finishing.make(folder, there, made)
    elif not done:
        raise Failed(f"{folder.path} did not come to its end: {command_line.other('status')} says why; --partial takes what there is")
    number = record["job_name"].rpartition("-")[2]
    target = options.to or os.path.join(_places.tree() or "", "results", f"{time.strftime('%Y-%m-%d')}-{record['link']}-{number}")
    paths = [os.path.join(target, name) for name in sorted(os.listdir(made))]
    if (there := next(filter(os.path.exists, paths), None)) and not options.force:
        raise Failed(f"{there} exists: another --to, or --force")
    shutil.copytree(made, target, dirs_exist_ok=True)
    print("\n".join(paths))


def main(words):
    parser = parser_of(__doc__)
    parser.add_argument("run", metavar="RUN", help=command_line.named("folder that mpiq submit made"))
    parser.add_argument("--to", metavar="DIR", help="[results/DATE-slurm-NAME-RUN; RUN is the end of the name of its jobs]")
    parser.add_argument("--partial", action="store_true", help="merge the cells that there are of a run that has not ended")
    parser.add_argument("--force", action="store_true", help="replace files of the same name")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="mpiq-collect-") as work:
        run(parser, collect, options, work)
