"""Draws figures from result files: PNG, PDF and the CSV behind them.

To add a plot: a file in mpi_quant/figures/plots/ with one function that draws one figure, with one line @plot above it.
"""
import argparse
import math
import os
import sys
import textwrap

from mpi_quant.commands import command_line, progress
from mpi_quant.figures import look as fig, printed, source_files
from mpi_quant.figures import plots  # noqa: F401  registers them
from mpi_quant.figures.register import PLOTS
from mpi_quant.figures.selection import BEST_DENSE, PlotError, Selection
from mpi_quant.results import training_step


LONGEST_STEM = 80  # letters of several names


def list_of_plots():
    """What the help says of each plot, one below the other."""
    lines = [textwrap.fill(" ".join(function.__doc__.split()), 98, initial_indent=f"  {name:13} ", subsequent_indent=" " * 16, break_on_hyphens=False) for name, function in PLOTS.items()]
    return "plots:\n" + "\n".join(lines)


def parse(arguments):
    parser = argparse.ArgumentParser(prog=command_line.program(), description=__doc__.splitlines()[0],
                                     epilog=f"{command_line.which_figures()}\n\n{list_of_plots()}")
    command_line.add_version(parser)
    parser.add_argument("what", help=f"a plot ({', '.join(PLOTS)}) or all")
    parser.add_argument("files", nargs="*", metavar="FILE.h5", type=command_line.existing_file, help="several make one figure, a panel for each link; "
                        "kernels.json, for roofline and for the memory's roof in busbw; TRAIN.csv of mpiq-train, for training; QUALITY.csv of mpiq-quality, for codecs; "
                        "errors.csv of scripts/frontier, for frontier")
    parser.add_argument("-o", "--out", metavar="DIR", help="folder of the figures [where the first file is]")
    parser.add_argument("--name", metavar="NAME", help="figures are NAME-<plot>.* [the files' names; of many, the first and how many more]")
    parser.add_argument("--title", metavar="TEXT", default="")
    parser.add_argument("--baseline", metavar="METHOD", help="speed-ups over this method, or over " + BEST_DENSE +
                        ", the fastest of the MPI library's own algorithms at each point [the baseline of the measurement]")
    parser.add_argument("--format", metavar="png,pdf,svg", default="png,pdf", help="comma list [%(default)s]; the CSV is always written")
    parser.add_argument("--where", action="append", default=[], metavar="COLUMN=VALUE", help="only these rows; repeatable")
    parser.add_argument("--paper", choices=tuple(printed.WIDTHS), help="for a paper: the panels in one row, one legend below, no title "
                        f"and no footnote, which go to NAME-<plot>.txt; column: {printed.WIDTHS['column']} inches wide, page: {printed.WIDTHS['page']}")
    parser.add_argument("--width", type=float, metavar="INCHES", help="as --paper, with another width")
    parser.add_argument("--if-applies", action="store_true", help="no figure and no error where the files have nothing for the plot")
    parser.add_argument("--flops", type=float, default=training_step.FLOPS, metavar="N", help="of scale: floating-point operations that a rank makes a second [%(default)g]")
    options = parser.parse_intermixed_args(arguments)
    if options.what not in PLOTS and options.what != "all":
        if not options.what.endswith((".h5", ".json", ".csv")):
            parser.error(f"no plot '{options.what}': {', '.join(PLOTS)} or all")
        options.files.insert(0, options.what)
        options.what = "all"
    if options.paper and options.width is None:
        options.width = printed.WIDTHS[options.paper]
    if options.width is not None and not printed.NARROWEST <= options.width <= printed.WIDEST:
        parser.error(f"--width {options.width:g}: {printed.NARROWEST:g} to {printed.WIDEST:g} inches")
    if not 0 < options.flops < math.inf:
        parser.error(f"--flops {options.flops:g}: a positive number")
    options.format = options.format.split(",")
    if not options.files:
        parser.error("which files?")
    if set(options.format) - {"png", "pdf", "svg"}:
        parser.error(f"--format {','.join(options.format)}: png, pdf and svg are known")
    return options


def read(options):
    """The kind of source that plots take -> the source."""
    both = options.what != "all" and PLOTS[options.what].both
    sources = source_files.read(options.files, lambda results: Selection(results, options.where, options.title, options.baseline, both),
                                options.title)
    if "results" in sources:
        sources["results"].flops = options.flops
    return sources


TAKES = {"kernels": "kernels.json (mpiq-kernels)", "training": "TRAIN.csv (mpiq-train)", "quality": "QUALITY.csv (mpiq-quality)",
         "frontier": "errors.csv (scripts/frontier)", "results": "FILE.h5"}


def chosen(what, sources, if_applies=False):
    """The names of the plots to draw, and the variants of each."""
    names = PLOTS if what == "all" else [what]
    if what == "all" or if_applies:
        names = [n for n in names if PLOTS[n].takes in sources and PLOTS[n].applies(sources[PLOTS[n].takes])]
    elif PLOTS[what].takes not in sources:
        raise PlotError(f"{what} takes {TAKES[PLOTS[what].takes]}")
    return [(name, variant) for name in names for variant in PLOTS[name].variants(sources[PLOTS[name].takes]) or [""]]


def stem_of(files):
    """How the names of figures begin: the names of the files; of many, the first and how many more there are."""
    names = [os.path.splitext(os.path.basename(path))[0] for path in files]
    whole = "+".join(names)
    return whole if len(names) == 1 or len(whole) <= LONGEST_STEM else f"{names[0]}+{len(names) - 1}-more"


def main(arguments):
    options = parse(arguments)
    fig.use_style(options.width)
    try:
        with progress.Line("reads the files"):
            sources = read(options)
        stem = options.name or stem_of(options.files)
        folder = options.out if options.out is not None else os.path.dirname(options.files[0])
        with progress.Line() as shown:
            for name, variant in shown.each("figure", chosen(options.what, sources, options.if_applies)):
                figure, rows = PLOTS[name](sources[PLOTS[name].takes], *[variant] * bool(variant))
                path = os.path.join(folder, "-".join(filter(None, (stem, name, variant))))
                shown.print(" ".join(fig.save(figure, rows, path, options.format)))
    except source_files.PROBLEMS as problem:
        print(f"{command_line.program()}: {command_line.named(str(problem))}", file=sys.stderr)
        return 1
    return 0
