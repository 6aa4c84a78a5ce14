"""What the command lines of all commands share: their name, --version, counts, and files that must exist. A missing file is a usage error
(exit code 2)."""
import argparse
import json
import os
import re
import sys

import mpi_quant

WHICH_FIGURES = """
Which one? mpiq report makes a page to read: what to use, figures, tables. mpiq plot makes single figures for a paper or slides.
scripts/draw DIR makes both for a folder of results, as scripts/run does at its end."""
_started_as = "mpiq"


def start_as(name):
    """Says as which command this process speaks of itself: `mpiq plot`, or `scripts/plot` where the source tree's launcher was called."""
    global _started_as
    _started_as = name


def program():
    """The name of the command that runs, as the user has called it."""
    return _started_as


def other(command):
    """The name of another command, as a user who has called this one would call it."""
    found = re.match(r".*[ /]", _started_as)
    return (found[0] if found else "mpiq ") + command


def again():
    """The words with which this command can be started again, without its arguments."""
    started = os.path.abspath(sys.argv[0])
    if not _started_as.startswith("mpiq "):
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
    """Adds --version. For `mpiq completion` the parser says what it knows instead of parsing."""
    if os.environ.get("MPIQ_DESCRIBE"):
        parser.parse_known_args = lambda *_: describe(parser)
    parser.add_argument("--version", action="version", version=f"{parser.prog} {mpi_quant.__version__}")


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
