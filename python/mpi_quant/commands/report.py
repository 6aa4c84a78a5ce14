"""Makes one HTML page of result files: what to use from which size on, figures, tables, and how it was measured.

The page needs nothing else: no network, no scripts. The same files make the same bytes.
"""
import argparse
import os
import sys

from mpi_quant.commands import command_line, progress
from mpi_quant.figures import look, source_files
from mpi_quant.figures import plots  # noqa: F401  registers them
from mpi_quant.figures.selection import BEST_DENSE, PlotError, Selection
from mpi_quant.report import contents
from mpi_quant.results.schema import noun_of


def parse(arguments):
    parser = argparse.ArgumentParser(prog=command_line.program(), description=__doc__.splitlines()[0], epilog=command_line.which_figures())
    command_line.add_version(parser)
    parser.add_argument("files", nargs="+", metavar="FILE.h5", type=command_line.existing_file, help="result files, and perhaps kernels.json, QUALITY.csv of mpiq-quality and TRAIN.csv of mpiq-train")
    parser.add_argument("-o", "--out", metavar="FILE.html", default="report.html", help="[%(default)s]")
    parser.add_argument("--title", metavar="TEXT", default="", help="[what was measured]")
    parser.add_argument("--baseline", metavar="METHOD", help="speed-ups over this method, over " + BEST_DENSE + ", the fastest "
                        "of the MPI library's own algorithms at each point, or over the baseline of the measurement: own [" + BEST_DENSE +
                        " where the files have samples, else own]")
    parser.add_argument("--where", action="append", default=[], metavar="COLUMN=VALUE", help="only these rows; repeatable")
    return parser.parse_args(arguments)


def read(options):
    if "results" not in map(source_files.kind_of, options.files):
        raise PlotError(command_line.named("a report is about FILE.h5 of mpiq-bench; kernels.json alone: mpiq plot roofline; TRAIN.csv alone: "
                                           "mpiq plot training, mpiq mnist_table"))

    def select(results):
        baseline = options.baseline or (BEST_DENSE if all(r.samples is not None for r in results) else "own")
        return Selection(results, options.where, "", None if baseline == "own" else baseline)
    return source_files.read(options.files, select)


def default_title(selection):
    collective = {"sparse_allreduce": "sparse allreduce"}.get(selection.collective, noun_of(selection.collective))
    links = sorted({str(link) for link in selection.points["link"]} - {""})
    return f"Compressed {collective}" + (f" on {', '.join(links)}" if links else "")


def main(arguments):
    options = parse(arguments)
    look.use_style()
    try:
        with progress.Line("reads the files") as shown:
            sources = read(options)
            shown.now("makes the page")
            page = contents.build(sources, options.title or default_title(sources["results"]))
        os.makedirs(os.path.dirname(options.out) or ".", exist_ok=True)
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(page)
        print(options.out)
    except source_files.PROBLEMS as problem:
        print(f"{command_line.program()}: {problem}", file=sys.stderr)
        return 1
    return 0
