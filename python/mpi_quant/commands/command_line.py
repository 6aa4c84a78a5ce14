"""What the command lines of all commands share: their name, --version, counts, and files that must exist. A missing file is a usage error
(exit code 2)."""
import argparse
import contextlib
import json
import os
import re
import subprocess
import sys

import mpi_quant
from mpi_quant import _places

SLURM = ("collect", "status", "submit")  # commands whose launchers are in slurm/; the others have theirs in scripts/
EXAMPLES = {  # a line for the help of each command
    "check": "mpiq check results.h5",
    "collect": "mpiq collect first",
    "compare": "mpiq compare before.h5 after.h5 --max-slower 5",
    "docs": "mpiq docs site",
    "export": "mpiq export results.h5 --format csv -o results.csv",
    "merge": "mpiq merge launch-1.h5 launch-2.h5 -o results.h5",
    "mnist_table": "mpiq mnist_table mnist-2.csv",
    "plot": "mpiq plot speedup results.h5 --where ranks=2",
    "policy": "mpiq policy results.h5 --error 0.01 -o policy.txt",
    "quality": "mpiq quality -o quality.csv",
    "report": "mpiq report results.h5 -o report.html",
    "simulate": "mpiq simulate --out simulated --ranks 64,1024",
    "status": "mpiq status first",
    "submit": "mpiq submit --quick --nodes 2 --dry-run",
    "sweep": "mpiq sweep bench/sweeps/quick.toml --out quick",
    "table": "mpiq table results.h5",
}
_started_as = "mpiq"


class OutputError(OSError):
    """Standard output takes no more: its disk is full, for example. The text says so."""


@contextlib.contextmanager
def output():
    """Around code that prints, and uses no other file: its OSError becomes an OutputError, which names standard output. BrokenPipeError
    stays one, as a reader that has closed the output is no failure."""
    try:
        yield
    except (BrokenPipeError, OutputError):
        raise
    except OSError as problem:
        raise OutputError(f"standard output: {problem.strerror}") from problem


class Paragraphs(argparse.HelpFormatter):
    """Fills each paragraph of a description alone. Paragraphs with a line that begins with blanks, such as examples, stay as they are."""

    def _fill_text(self, text, width, indent):
        fill = super()._fill_text
        return "\n\n".join(part if re.search(r"^ ", part, re.M) else fill(part, width, indent) for part in re.split(r"\n\n+", text.strip("\n")))


def start_as(name):
    """Says as which command this process speaks of itself: `mpiq plot`, or `scripts/plot` where the source tree's launcher was called."""
    global _started_as
    _started_as = name


def program():
    """The name of the command that runs, as the user has called it."""
    return _started_as


def by_launcher():
    """Whether a launcher of the source tree started this process, such as scripts/plot."""
    return not _started_as.startswith("mpiq")


def other(command):
    """The name of another command, as a user who has called this one would call it. If this one was called by its launcher in
    the source tree, the name of the other's launcher."""
    if not by_launcher():
        return f"mpiq {command}"
    if command in SLURM:
        return f"slurm/{command}"
    return "scripts/check_results" if command == "check" else f"scripts/{command}"


def named(text):
    """A text about commands, in which `mpiq plot` becomes what the user would call it."""
    return re.sub(r"\bmpiq ([a-z_]+)", lambda found: other(found[1]), text)


def which_figures():
    """What the help of plot and report says about both, and in the source tree about scripts/draw, which starts both."""
    text = named("Which one? mpiq report makes a page to read: what to use, figures, tables. mpiq plot makes single figures for a paper or slides.")
    return text + " scripts/draw DIR makes both for a folder of results, as scripts/run does at its end." if by_launcher() else text


def run_other(command, *words, **options):
    """Runs another command in a process of its own, which speaks of itself by the name of `other`. Returns its exit code."""
    own = [_places.PACKAGE.parents[1] / other(command)] if by_launcher() else ["-P", "-m", "mpi_quant", command]
    sys.stdout.flush()
    return subprocess.run([sys.executable, *own, *words], check=False, env=_places.environment(), **options).returncode


def again():
    """The words with which this command can be started again, without its arguments."""
    started = os.path.abspath(sys.argv[0])
    if by_launcher():
        return [started]
    return [*([started] if os.path.basename(started) == "mpiq" else [sys.executable, "-m", "mpi_quant"]), _started_as.removeprefix("mpiq ")]


def describe(parser):
    """Prints the options of a parser as JSON, for the completion of mpiq."""
    def text(action):
        return " ".join((action.help or "").split()) % {**vars(action), "prog": parser.prog}
    print(json.dumps([{"flags": action.option_strings, "choices": list(map(str, action.choices or ())), "help": text(action),
                       "takes": "" if action.nargs == 0 else str(action.metavar or action.dest).lower()}
                      for action in parser._actions if action.option_strings and action.help != argparse.SUPPRESS]))
    parser.exit()


def add_version(parser):
    """Adds --version, and to the description of a command its example. For `mpiq completion` the parser says what it knows instead of parsing."""
    if os.environ.get("MPIQ_DESCRIBE"):
        parser.parse_known_args = lambda *_: describe(parser)
    parser.add_argument("--version", action="version", version=f"{parser.prog} {mpi_quant.__version__}")
    if example := next((line for name, line in EXAMPLES.items() if _started_as in (f"mpiq {name}", other(name))), ""):
        parser.formatter_class = Paragraphs
        parser.description = f"{parser.description}\n\n  {named(example)}"


def count(word):
    """The type of an argument of add_argument that is an integer from 1 on."""
    if not re.fullmatch("[0-9]+", word) or int(word) == 0:
        raise argparse.ArgumentTypeError(f"{word!r} is not an integer from 1 on")
    return int(word)


def existing_file(path):
    """The type of an argument of add_argument that names a file."""
    if os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"{path}: is a folder")
    if not os.path.exists(path):
        raise argparse.ArgumentTypeError(f"{path}: no such file")
    return path
