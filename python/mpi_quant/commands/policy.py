"""Makes a policy of result files: for each size and number of ranks the fastest method within an error limit, or MPI's own.

A rule is for sizes between measured ones, for one number of ranks and one type, and a comment above it says what was measured. With
--knowledge it makes the file that `auto` chooses by, in MPIQ_KNOWLEDGE. With --mpi it makes the settings by which the MPI library itself, Open MPI
or MPICH, takes the fastest of its own algorithms. Where nothing was measured, nothing is said. Exits 0, 1 (nothing can
be concluded from the files) or 2 (usage).
"""
import argparse
import math
import shlex
import sys

from mpi_quant.commands import command_line, progress, text_output
from mpi_quant.figures.selection import PlotError
from mpi_quant.report import mpi_settings, rules
from mpi_quant.results.reader import ResultsError

USUAL_ERROR = 0.01  # as of advice (MPIQ_ADVISE_ERROR)


def limit(word):
    """The type of --error."""
    if word == rules.FEEDBACK:
        return word
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{word!r} is neither a relative error, 0 or more, nor the word {rules.FEEDBACK}")
    return value


def counts(word):
    """The type of --ranks."""
    return [command_line.count(part) for part in word.split(",")]


def parse(arguments):
    parser = argparse.ArgumentParser(prog=command_line.program(), description=" ".join(__doc__.split()))
    command_line.add_version(parser)
    parser.add_argument("files", nargs="+", metavar="FILE.h5", type=command_line.existing_file, help="results of mpiq-bench on one network; with --simulated also of mpiq-simulate")
    parser.add_argument("--error", type=limit, metavar="X",
                        help=f"the largest relative L2 error of one call; 0: only rounding; feedback: any, and rules have feedback=address [{USUAL_ERROR}]")
    parser.add_argument("--knowledge", action="store_true", help="a file for MPIQ_KNOWLEDGE in place of a policy; its lines are for auto(error=X)")
    parser.add_argument("--mpi", action="store_true",
                        help="settings of the MPI library that was measured, in place of a policy: a file of rules for Open MPI, or a variable for MPICH")
    parser.add_argument("--ranks", type=counts, metavar="N,N", help="only these numbers; one without results is refused [all]")
    parser.add_argument("--simulated", action="store_true", help="take simulated files too, for numbers of ranks that were not measured; comments say so")
    parser.add_argument("--where", action="append", default=[], metavar="COLUMN=VALUE", help="only these rows; repeatable")
    parser.add_argument("-o", "--out", metavar="OUT", help="[standard output]")
    options = parser.parse_args(arguments)
    if options.mpi and (options.knowledge or options.simulated or options.error is not None):
        parser.error("--mpi: about MPI's own algorithms, as they were measured: not with --error, --knowledge or --simulated")
    options.error = USUAL_ERROR if options.error is None else options.error
    return options


def use_line(options, groups):
    """How the file is used."""
    file = shlex.quote(options.out) if options.out not in (None, "-") else "THIS_FILE"
    if options.knowledge:
        words = rules.asked_of(options.error) + (" feedback=address" if options.error == rules.FEEDBACK else "")
        served = dict.fromkeys(g.collective for g in groups if rules.has_knowledge(g, options.error)) or [""]
        policy = "; ".join(f"{collective}: {words}" for collective in served)
        return f"# Use: MPIQ_KNOWLEDGE={file} mpiexec -n N mpiq-run --policy '{policy}' ./app"
    return f"# Use: mpiexec -n N mpiq-run --policy-file {file} ./app"


def lines_of(options):
    """The lines of the file that the options ask for."""
    if options.mpi:
        return mpi_settings.lines(mpi_settings.read(options.files, options.where, options.ranks), options.where)
    groups, results = rules.read(options.files, options.where, options.error, options.simulated, options.ranks)
    return [use_line(options, groups), *(rules.knowledge_lines if options.knowledge else rules.policy_lines)(groups, results, options.where, options.error)]


def main(arguments):
    options = parse(arguments)
    try:
        with progress.Line("reads the files"):
            text = "\n".join(lines_of(options)) + "\n"
        with text_output.place(options.out) as out:
            out.write(text)
    except BrokenPipeError:
        raise
    except (ResultsError, PlotError, OSError) as problem:
        print(f"{command_line.program()}: {problem}", file=sys.stderr)
        return 1
    return 0
