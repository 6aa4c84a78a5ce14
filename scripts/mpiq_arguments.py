"""What the command lines of all scripts share: --version, counts, and files that must exist. A missing file is a usage error (exit code
2)."""
import argparse
import json
import os
import re

WHICH_FIGURES = """
Which one? scripts/report makes a page to read: what to use, figures, tables. scripts/plot makes single figures for a paper or slides.
scripts/draw DIR makes both for a folder of results, as scripts/run does at its end."""
TREE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def programs():
    """The folder of the compiled programs: that of the build, or that of an installed mpi_quant."""
    note = os.path.join(TREE, "programs_dir")  # which cmake --install writes
    if not os.path.exists(note):
        return os.path.join(TREE, "build", "release", "bin")
    with open(note, encoding="utf-8") as file:
        return os.path.normpath(os.path.join(TREE, file.read().strip()))


def describe(parser):
    """Prints the options of a parser as JSON, for the completion of mpiq."""
    def text(action):
        return " ".join((action.help or "").split()) % {**vars(action), "prog": parser.prog}
    print(json.dumps([{"flags": action.option_strings, "choices": list(map(str, action.choices or ())), "help": text(action),
                       "takes": "" if action.nargs == 0 else str(action.metavar or action.dest).lower()}
                      for action in parser._actions if action.option_strings and action.help != argparse.SUPPRESS]))
    parser.exit()


def add_version(parser):
    """Adds --version. Under the command mpiq the parser takes its name. For `mpiq completion` it says what it knows instead of parsing."""
    if os.environ.get("MPIQ_DESCRIBE"):
        parser.parse_known_args = lambda *_: describe(parser)
    parser.prog = os.environ.get("MPIQ_COMMAND", parser.prog)
    path = os.path.join(TREE, "CMakeLists.txt")
    if not os.path.exists(path):  # an installed mpi_quant
        path = os.path.join(TREE, "python", "mpi_quant", "__init__.py")
    with open(path, encoding="utf-8") as file:
        version = re.search(r"^(?:project[(].* VERSION |__version__ = \")([0-9.]+)", file.read(), re.M)[1]
    parser.add_argument("--version", action="version", version=f"{parser.prog} {version}")


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
