"""What the tests of cmake/packaging/ share: the files, the version of the project, and stand-ins for what recipes import."""
import collections
import contextlib
import glob
import os
import re
import sys
import types

from scripts_common import ROOT

PLACE = os.path.join(ROOT, "cmake", "packaging")
FILES = sorted(path for path in glob.glob(os.path.join(PLACE, "**"), recursive=True) if os.path.isfile(path) and not path.endswith(".pyc"))
PAGE = os.path.join(ROOT, "docs", "install.md")


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


VERSION = re.search(r"^project\(mpi_quant VERSION ([\d.]+)", read("CMakeLists.txt"), re.M).group(1)


@contextlib.contextmanager
def modules(**content):
    """Modules with these contents, by their name with __ in place of a dot; and their packages."""
    before, made = dict(sys.modules), {}
    for name, values in content.items():
        name = name.replace("__", ".")
        for i in range(name.count(".") + 1):
            package = ".".join(name.split(".")[:i + 1])
            made.setdefault(package, types.ModuleType(package)).__path__ = []
        vars(made[name]).update(values)
    sys.modules.update(made)
    try:
        yield
    finally:
        sys.modules.clear()
        sys.modules.update(before)


def executed(*path):
    """The names that a Python file defines."""
    names = {"__name__": "recipe"}
    exec(compile(read(PLACE, *path), os.path.join(*path), "exec"), names)  # pylint: disable=exec-used
    return names


class Declared:
    """Keeps calls: name -> [(arguments, keywords)]."""

    def __init__(self):
        self.calls = collections.defaultdict(list)

    def directive(self, name):
        return lambda *words, **keywords: self.calls[name].append((words, keywords))

    @contextlib.contextmanager
    def when(self, _):
        yield

    def directives(self, *names):
        return {name: self.directive(name) for name in names}
